package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/swrproxy/swrproxy/cache/disk"
)

// errDamaged is the result of a check that found something.
var errDamaged = errors.New("the store is damaged; a proxy that opens it drops what is named above")

func storeCommand(p process) *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Look after a disk tier that no process has open", Args: cobra.NoArgs}
	cmd.AddCommand(
		&cobra.Command{
			Use: "check DIR", Short: "Verify every record and body; changes nothing", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return checkStore(p, args[0]) },
		},
		&cobra.Command{
			Use: "compact DIR", Short: "Rewrite the database file without its free pages", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return compactStore(p, args[0]) },
		},
	)
	return cmd
}

func checkStore(p process, dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	rep, err := disk.Check(ctx, dir)
	if err != nil {
		return err
	}
	for _, problem := range rep.Problems {
		fmt.Fprintln(p.out, problem)
	}
	fmt.Fprintf(p.out, "%d records, %s of bodies, %d files without a record\n", rep.Records, humanize.IBytes(uint64(rep.Bytes)), rep.Orphans)
	if len(rep.Problems) > 0 {
		return errDamaged
	}
	return nil
}

func compactStore(p process, dir string) error {
	before, after, err := disk.Compact(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%s: %s before, %s after\n", dir, humanize.IBytes(uint64(before)), humanize.IBytes(uint64(after)))
	return nil
}
