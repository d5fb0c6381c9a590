package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/swrproxy/swrproxy/internal/app"
	"github.com/swrproxy/swrproxy/internal/config"
)

func storeCommand(p process) *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Look after a disk tier that no process has open", Args: cobra.NoArgs}
	cmd.AddCommand(
		storeSubcommand("check", "Verify every record and body; changes nothing", func(dir string) error { return checkStore(p, dir) }),
		storeSubcommand("compact", "Rewrite the database file without its free pages", func(dir string) error { return app.CompactStore(p.out, dir) }),
	)
	return cmd
}

// storeSubcommand does something to the store in a directory, which is named by itself or by a settings file.
func storeSubcommand(name, short string, do func(dir string) error) *cobra.Command {
	cmd := &cobra.Command{Use: name + " (DIR | --config FILE)", Short: short, Args: cobra.MaximumNArgs(1)}
	var file string
	cmd.Flags().StringVarP(&file, "config", "c", "", "settings `FILE` of the proxy, for disk.path")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		dir, err := storeDir(args, file)
		if err != nil {
			return err
		}
		return do(dir)
	}
	return cmd
}

var (
	errTwoStores = errors.New("both DIR and --config say where the store is; give one of them")
	errNoStore   = errors.New("nothing says where the store is; give its DIR, or --config FILE with disk.path in it")
)

// storeDir is the directory that the command line names, or that the settings in file do.
func storeDir(args []string, file string) (string, error) {
	switch {
	case len(args) > 0 && file != "":
		return "", errTwoStores
	case len(args) > 0 && args[0] != "":
		return args[0], nil
	case file == "":
		return "", errNoStore
	}
	cfg, err := config.Load(config.Options{File: file})
	if err != nil {
		return "", err
	}
	if cfg.Disk.Path == "" {
		return "", fmt.Errorf("%s: disk.path is not set, so the proxy has no disk tier; give the store's DIR in place of --config", file)
	}
	return cfg.Disk.Path, nil
}

// checkStore can take minutes on a large store; Ctrl-C ends it.
func checkStore(p process, dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return app.CheckStore(ctx, p.out, dir)
}
