package main

import (
	"github.com/spf13/cobra"

	"github.com/swrproxy/swrproxy/internal/demo"
)

func demoCommand(p process) *cobra.Command {
	o := demo.Options{Out: p.out, Log: p.errs, Version: version()}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a slow origin and the proxy in one process, to try it",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, err := demo.Start(o)
			if err != nil {
				return err
			}
			return p.await(d)
		},
	}
	cmd.Flags().StringVar(&o.Listen, "listen", "", "`address` of the proxy (default 127.0.0.1:8080, or a free port if that is taken)")
	cmd.Flags().StringVar(&o.Admin, "admin", "", "`address` of the admin listener (default 127.0.0.1:8081, or a free port)")
	return cmd
}
