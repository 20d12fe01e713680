package runs

// Feasible tells why a spec could not be trained on its data set, before any training: classes or images too few for its
// batches, too few classes left to measure, or whatever [Spec.Validate] rejects.
func Feasible(spec Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	set, err := OpenData(spec, DataOptions{})
	if err != nil {
		return err
	}
	return spec.Config.Fits(set, spec.HeldOut)
}
