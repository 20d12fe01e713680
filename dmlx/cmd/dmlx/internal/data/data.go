// Package data has the commands about the data sets of the paper, and folders of images.
package data

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
)

// NewData lists, downloads and checks data sets.
func NewData(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "List and check the paper's data sets: CUB, CAR, SOP, In-shop",
		Long: `List and check the paper's data sets: cub, cars, sop and inshop.

They are in the folder data of the working directory, or in the folder that ` + datasets.DataEnv + ` or --root names.
Each has a folder with its own name or its archive's name. Classes are split as in the paper: the first half is for
training.`,
		Example: "  dmlx data list\n  dmlx data verify cub",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var root string
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the data sets, their state on this machine and their sources",
		Example: "  dmlx data list --root /shared/data",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return listData(a, root) },
	}
	verify := &cobra.Command{
		Use:     "verify cub|cars|sop|inshop",
		Short:   "Check a data set: compare its counts with the published ones and open every image",
		Example: "  dmlx data verify sop --root /shared/data",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return verifyData(a, cmd, args[0], root) },
	}
	for _, sub := range []*cobra.Command{list, verify} {
		sub.Flags().StringVar(&root, "root", "",
			"folder of the data sets, or of this one (default: "+datasets.DataEnv+", else data)")
		cmd.AddCommand(sub)
	}
	return cmd
}

// splitCount is the JSON of a split.
type splitCount struct {
	Classes int `json:"classes"`
	Images  int `json:"images"`
}

func splitCounts(l *datasets.Listing) map[string]splitCount {
	counts := make(map[string]splitCount, len(l.Splits))
	for i := range l.Splits {
		classes, images := l.Splits[i].Count()
		counts[l.Splits[i].Name] = splitCount{classes, images}
	}
	return counts
}

// dataText returns a listing as text.
func dataText(l *datasets.Listing) string {
	rows := []string{"split\tclasses\timages\t"}
	for i := range l.Splits {
		classes, images := l.Splits[i].Count()
		rows = append(rows, fmt.Sprintf("%s\t%d\t%d\t", l.Splits[i].Name, classes, images))
	}
	return fmt.Sprintf("%s in %s\n%s", l.Name, l.Root, text.Right(rows...))
}

func listData(a *app.App, root string) error {
	type set struct {
		datasets.Source
		Root     string                `json:"root,omitempty"`
		Splits   map[string]splitCount `json:"splits,omitempty"`
		Complete bool                  `json:"complete"`
		Why      string                `json:"why,omitempty"`
	}
	var sets []set
	rows := []string{"data set\tname\tstate\twhere, or how to get it"}
	for _, source := range datasets.Sources() {
		s := set{Source: source}
		state, where := "missing", source.Page
		if source.URL != "" {
			where = "curl -C - -O " + source.URL
		}
		if source.MD5 != "" {
			where += ", MD5 " + source.MD5
		}
		dir, err := datasets.Find(source.Name, root)
		var l *datasets.Listing
		if err == nil {
			if l, err = datasets.List(source.Name, root); err != nil {
				s.Root, state, where = dir, "damaged", err.Error()
			}
		}
		if err == nil {
			s.Root, s.Splits = l.Root, splitCounts(l)
			state, where = "complete", l.Root
			err = l.Complete()
			s.Complete = err == nil
			if err != nil {
				state = "differs"
			}
		}
		if err != nil {
			s.Why = err.Error()
		}
		sets = append(sets, s)
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", source.Name, source.Alias, state, where))
	}
	return a.Print(map[string]any{"sets": sets}, text.Table(rows...))
}

func verifyData(a *app.App, cmd *cobra.Command, name, root string) error {
	l, err := datasets.List(name, root)
	if err != nil {
		return err
	}
	damaged, err := l.Damaged(datasets.Options{Context: cmd.Context(), Note: a.Note, Progress: func(done, total int) {
		a.Line.Show("%s: %d of %d images opened", l.Name, done, total)
	}})
	a.Line.End()
	if err != nil {
		return fmt.Errorf("%s: %w", l.Name, err)
	}
	differs := l.Complete()
	verdict := "as published, and every image can be read"
	if differs != nil || len(damaged) > 0 {
		verdict = strings.Join(append(append([]string{"not as published:"}, l.Differs...), damaged...), "\n  ")
	}
	if err := a.Print(map[string]any{
		"name": l.Name, "root": l.Root, "splits": splitCounts(l), "ok": differs == nil && len(damaged) == 0,
		"differs": append([]string{}, l.Differs...), "missing": append([]string{}, l.Missing...),
		"damaged": append([]string{}, damaged...),
	}, dataText(l)+"\n"+verdict); err != nil {
		return err
	}
	if len(damaged) > 0 {
		more := ""
		if len(damaged) > 1 {
			more = fmt.Sprintf(" and %d more", len(damaged)-1)
		}
		bad := fmt.Errorf("%d of the images of %s in %s cannot be read: %s%s", len(damaged), l.Name, l.Root, damaged[0], more)
		if differs == nil {
			return bad
		}
		return fmt.Errorf("%w; %w", differs, bad)
	}
	return differs
}
