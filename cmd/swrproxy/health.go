package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/swrproxy/swrproxy/internal/admin/client"
)

// healthTimeout bounds a health check; a proxy that takes longer is not well.
const healthTimeout = 3 * time.Second

func healthCommand() *cobra.Command {
	var where client.Where
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a running proxy whether it is ready; for container health checks",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			found, err := client.Locate(where)
			if err != nil {
				return err
			}
			return askHealth(found.Admin + "/readyz")
		},
	}
	addWhere(cmd, &where)
	return cmd
}

func askHealth(url string) error {
	client := http.Client{Timeout: healthTimeout}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // only the status matters
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
