package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// Metrics of the proxy that the bench reads.
const (
	metricQueue       = `swrproxy_disk_queue_bytes`
	metricOnDisk      = `swrproxy_store_records{tier="disk"}`
	metricHeld        = `swrproxy_store_bytes{tier="memory"}`
	metricCollections = `go_gc_duration_seconds_count`
	metricMaximum     = `swrproxy_store_max_bytes{tier="memory"}`
)

// adminGet asks the proxy's admin listener and returns the whole answer.
func (b *bench) adminGet(ctx context.Context, s *server, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: the admin listener answered %s", path, resp.Status)
	}
	return body, err
}

// metric reads one of the proxy's metrics, name with its labels.
func (b *bench) metric(ctx context.Context, s *server, name string) (float64, error) {
	text, err := b.adminGet(ctx, s, "/metrics")
	if err != nil {
		return 0, err
	}
	return parseMetric(text, name)
}

func parseMetric(text []byte, name string) (float64, error) {
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("no metric %s", name)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// settled waits until everything that was to be written to disk is written, and returns how many records there are.
func (b *bench) settled(ctx context.Context, s *server) (float64, error) {
	const longest, look = 20 * time.Second, 20 * time.Millisecond
	for until := time.Now().Add(longest); ; {
		waiting, err := b.metric(ctx, s, metricQueue)
		if err != nil {
			return 0, err
		}
		if waiting == 0 {
			return b.metric(ctx, s, metricOnDisk)
		}
		if time.Now().After(until) {
			return 0, fmt.Errorf("%.0f bytes still wait to be written to disk after %s", waiting, longest)
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
