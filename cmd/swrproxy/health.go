package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// healthTimeout bounds a health check; a proxy that takes longer is not well.
const healthTimeout = 3 * time.Second

func healthCommand() *cobra.Command {
	admin := "127.0.0.1:8081"
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a running proxy whether it is ready; for container health checks",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return askHealth("http://" + admin + "/readyz") },
	}
	cmd.Flags().StringVar(&admin, "admin", admin, "`address` of the proxy's admin listener")
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
