package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func checkCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Validate settings without opening anything, and print the effective ones",
		Long: "check reads settings as serve does, flags included, prints every mistake with file, line, column and what would be right,\n" +
			"and exits with 1. Without mistakes it prints the effective settings, secrets masked.",
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		cfg, err := s.load()
		if err != nil {
			return err
		}
		for _, w := range cfg.Warnings() {
			fmt.Fprintf(p.errs, "warning: %s\n", w)
		}
		_, err = p.out.Write(cfg.YAML())
		return err
	}
	return cmd
}
