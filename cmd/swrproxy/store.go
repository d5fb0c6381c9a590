package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/swrproxy/swrproxy/internal/app"
)

func storeCommand(p process) *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Look after a disk tier that no process has open", Args: cobra.NoArgs}
	cmd.AddCommand(
		&cobra.Command{
			Use: "check DIR", Short: "Verify every record and body; changes nothing", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return checkStore(p, args[0]) },
		},
		&cobra.Command{
			Use: "compact DIR", Short: "Rewrite the database file without its free pages", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return app.CompactStore(p.out, args[0]) },
		},
	)
	return cmd
}

// checkStore can take minutes on a large store; Ctrl-C ends it.
func checkStore(p process, dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return app.CheckStore(ctx, p.out, dir)
}
