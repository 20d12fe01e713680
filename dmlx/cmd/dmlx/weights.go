package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// newWeights downloads pretrained weights.
func newWeights(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "weights",
		Short:   "Download pretrained weights of ResNets",
		Example: "  dmlx weights get resnet18",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "get ARCH",
		Short:   "Download torchvision's ImageNet weights (V1) of resnet18 or resnet50 from the Hugging Face hub",
		Example: "  dmlx weights get resnet50",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			arch, err := backbone.ParseArch(args[0])
			if err != nil {
				return usage(err)
			}
			path, err := train.FetchWeights(cmd.Context(), arch)
			if err != nil {
				return err
			}
			return a.print(map[string]any{"arch": arch, "path": path}, fmt.Sprintf("%s: %s", arch, path))
		},
	})
	return cmd
}
