package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/swrproxy/swrproxy/internal/admin"
	"github.com/swrproxy/swrproxy/internal/admin/client"
)

// tokenVariable is where the token is taken from if neither flag nor file has it.
const tokenVariable = "SWRPROXY_ADMIN_TOKEN"

// adminCommands are those that ask a running proxy.
func adminCommands(p process) []*cobra.Command {
	return []*cobra.Command{purgeCommand(p), explainCommand(p), refreshCommand(p), statsCommand(p)}
}

// asking are the flags by which a command finds the proxy.
type asking struct {
	where client.Where
	json  bool
}

func addAsking(cmd *cobra.Command) *asking {
	a := &asking{}
	flags := cmd.Flags()
	addWhere(cmd, &a.where)
	flags.StringVar(&a.where.Token, "token", "", "admin `token`; better in "+tokenVariable+", where no process list shows it")
	flags.BoolVar(&a.json, "json", false, "print the proxy's answer as JSON")
	return a
}

// addWhere adds the flags that say where the admin listener is.
func addWhere(cmd *cobra.Command, where *client.Where) {
	flags := cmd.Flags()
	flags.StringVarP(&where.Config, "config", "c", "", "settings `FILE` of the proxy, for admin.listen and admin.token")
	flags.StringVar(&where.Admin, "admin", "", "`URL` of its admin listener (default "+client.DefaultAdmin+")")
}

// ask finds the proxy and runs f until it is done or a signal comes.
func (a *asking) ask(f func(context.Context, *client.Client) error) error {
	where, err := client.Locate(a.where)
	if err != nil {
		return err
	}
	if where.Token == "" {
		where.Token = os.Getenv(tokenVariable)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return f(ctx, client.New(where))
}

// print writes ans as JSON or by write.
func (a *asking) print(w io.Writer, ans any, write func()) error {
	if !a.json {
		write()
		return nil
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(ans)
}

func purgeCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "purge (--url URL | --tag TAG… | --prefix URL | --glob PATTERN | --host HOST | --all)",
		Short: "Invalidate what a running proxy has stored",
		Long: "purge removes stored responses, or with --soft makes them stale: they are then served by their stale windows while they are refreshed.\n" +
			"When it has ended no reader gets what was stored before, after a restart of the proxy neither.",
		Args: cobra.NoArgs,
	}
	a := addAsking(cmd)
	var q admin.PurgeRequest
	flags := cmd.Flags()
	flags.StringVar(&q.URL, "url", "", "one absolute `URL`, all its variants")
	flags.StringArrayVar(&q.Tags, "tag", nil, "`TAG` that responses carry (Surrogate-Key, Cache-Tag); may be given several times")
	flags.StringVar(&q.Prefix, "prefix", "", "beginning of absolute `URLs`")
	flags.StringVar(&q.Glob, "glob", "", "`PATTERN` for absolute URLs; * stands for any run of characters")
	flags.StringVar(&q.Host, "host", "", "`HOST`, with its port unless that is the scheme's own")
	flags.BoolVar(&q.All, "all", false, "everything")
	flags.BoolVar(&q.Soft, "soft", false, "make stale in place of removing")
	flags.BoolVar(&q.Refresh, "refresh", false, "fetch afresh what was reached, behind")
	flags.BoolVar(&q.DryRun, "dry-run", false, "only count")
	noWait := flags.Bool("no-wait", false, "end when the purge is in force and durable, without counts where these take a walk over the store")
	cmd.RunE = func(*cobra.Command, []string) error {
		if *noWait {
			q.Wait = new(bool)
		}
		return a.ask(func(ctx context.Context, c *client.Client) error {
			ans, err := c.Purge(ctx, q)
			if err != nil {
				return err
			}
			return a.print(p.out, ans, func() { client.WritePurge(p.out, &ans) })
		})
	}
	return cmd
}

func explainCommand(p process) *cobra.Command {
	cmd := &cobra.Command{Use: "explain URL", Short: "Tell what a running proxy would do with a request now, and why"}
	aboutURL(cmd, func(ctx context.Context, c *client.Client, url string, h http.Header) (any, func(), error) {
		ans, err := c.Records(ctx, url, h)
		return ans, func() { client.WriteRecord(p.out, &ans, time.Now()) }, err
	}, p)
	return cmd
}

func refreshCommand(p process) *cobra.Command {
	cmd := &cobra.Command{Use: "refresh URL", Short: "Have a running proxy fetch a URL afresh, whatever it has stored"}
	aboutURL(cmd, func(ctx context.Context, c *client.Client, url string, h http.Header) (any, func(), error) {
		ans, err := c.Refresh(ctx, admin.RefreshRequest{URL: url, Headers: h})
		return ans, func() { client.WriteRefresh(p.out, &ans, time.Now()) }, err
	}, p)
	return cmd
}

// question asks about a request: its URL and those of its fields that were given. It returns the answer and what writes it for people.
type question func(ctx context.Context, c *client.Client, url string, h http.Header) (ans any, write func(), err error)

// aboutURL makes cmd ask a question about the URL that is its argument.
func aboutURL(cmd *cobra.Command, q question, p process) {
	cmd.Args = cobra.ExactArgs(1)
	a := addAsking(cmd)
	lines := addFields(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		h, err := fieldsOf(*lines)
		if err != nil {
			return err
		}
		return a.ask(func(ctx context.Context, c *client.Client) error {
			ans, write, err := q(ctx, c, args[0], h)
			if err != nil {
				return err
			}
			return a.print(p.out, ans, write)
		})
	}
}

func statsCommand(p process) *cobra.Command {
	cmd := &cobra.Command{Use: "stats", Short: "Print figures of a running proxy", Args: cobra.NoArgs}
	a := addAsking(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		return a.ask(func(ctx context.Context, c *client.Client) error {
			ans, err := c.Stats(ctx)
			if err != nil {
				return err
			}
			return a.print(p.out, ans, func() { client.WriteStats(p.out, &ans) })
		})
	}
	return cmd
}

func addFields(cmd *cobra.Command) *[]string {
	return cmd.Flags().StringArrayP("header", "H", nil, "request field `'Name: value'` that chooses a variant; may be given several times")
}

// fieldsOf takes lines as curl does.
func fieldsOf(lines []string) (http.Header, error) {
	h := make(http.Header)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("--header %q has no colon; write it as 'Name: value'", line)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, nil
}
