package runs

import (
	"cmp"
	"context"
	"fmt"
)

// Check returns an error if one of the jobs cannot be done, before the first of them is: if its spec is not valid, has
// no triplets or does not fit its devices or its data set, or if another process cannot do it. Jobs that are done
// elsewhere are not compared with their data set, which may be there alone. [RunAll] and [AllHistograms] call it for
// the missing runs.
func (o Options) Check(ctx context.Context, store *Store, jobs []Job) error {
	checked := make(map[string]bool)
	for _, j := range jobs {
		if err := of(j.Spec, "", o.checkJob(ctx, store, j, checked)); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) checkJob(ctx context.Context, store *Store, j Job, checked map[string]bool) error {
	if err := cmp.Or(j.Spec.Ready(), j.Spec.HasTriplets(), j.Spec.FitsDevices(j.Devices)); err != nil {
		return err
	}
	if o.Submit != nil || o.RunProcess != nil {
		if err := j.Check(); err != nil {
			return err
		}
	}
	if o.Submit != nil {
		return nil
	}
	// Seeds, rules and rates do not matter to the data set.
	s := j.Spec
	key := fmt.Sprint(s.Data, s.DataDigest, s.Size, s.TrainClasses, s.TestClasses, s.HeldOut, s.Reading,
		s.ClassesPerBatch, s.ImagesPerClass, s.Loss == "", s.Model, s.Head)
	if checked[key] {
		return nil
	}
	checked[key] = true
	data, _, err := TrainingData(s, store.dataOptions(ctx, s, o.Progress))
	if err != nil {
		return err
	}
	return s.Config.Fits(data, s.HeldOut)
}
