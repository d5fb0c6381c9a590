package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/swrproxy/swrproxy/internal/admin"
)

// maxAnswer bounds an answer in bytes; the largest are the keys of a purge.
const maxAnswer = 16 << 20

// Client asks one proxy. Safe for concurrent use.
type Client struct {
	where Where
	http  *http.Client
}

// New makes a client for what Locate returned. It keeps no connection between calls.
func New(w Where) *Client {
	return &Client{where: w, http: &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true},
		// A redirect would carry the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Refused is what the proxy said against a request.
type Refused struct {
	admin.ErrorDetail
}

// Error is the proxy's message with the status.
func (r *Refused) Error() string { return fmt.Sprintf("%s (status %d)", r.Message, r.Status) }

// Purge invalidates what q selects. It returns when that is done, and on disk if there is a disk tier.
func (c *Client) Purge(ctx context.Context, q admin.PurgeRequest) (ans admin.PurgeAnswer, err error) {
	return ans, c.call(ctx, http.MethodPost, "/v1/purge", q, &ans)
}

// Records asks what the cache would do with a request for rawURL now.
func (c *Client) Records(ctx context.Context, rawURL string, h http.Header) (ans admin.RecordAnswer, err error) {
	q := url.Values{"url": {rawURL}}
	for name, values := range h {
		for _, v := range values {
			q.Add("header", name+": "+v)
		}
	}
	return ans, c.call(ctx, http.MethodGet, "/v1/records?"+q.Encode(), nil, &ans)
}

// Refresh fetches a URL afresh and waits for that, up to half a minute.
func (c *Client) Refresh(ctx context.Context, q admin.RefreshRequest) (ans admin.RefreshAnswer, err error) {
	return ans, c.call(ctx, http.MethodPost, "/v1/refresh", q, &ans)
}

// Stats asks for the present figures.
func (c *Client) Stats(ctx context.Context) (ans admin.StatsAnswer, err error) {
	return ans, c.call(ctx, http.MethodGet, "/v1/stats", nil, &ans)
}

// call sends body as JSON, unless it is nil, and decodes the answer into ans.
func (c *Client) call(ctx context.Context, method, path string, body, ans any) error {
	r, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("ask the proxy: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", c.where.Admin, err)
	}
	if resp.StatusCode != http.StatusOK {
		return c.refused(resp.StatusCode, text)
	}
	if err := json.Unmarshal(text, ans); err != nil {
		return fmt.Errorf("%s does not answer like an admin listener: %w", c.where.Admin, err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.where.Admin+path, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.where.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.where.Token)
	}
	return r, nil
}

func (c *Client) refused(status int, text []byte) error {
	var e admin.Error
	if err := json.Unmarshal(text, &e); err != nil || e.Error.Message == "" {
		return fmt.Errorf("%s answers status %d and is no admin listener", c.where.Admin, status)
	}
	return &Refused{e.Error}
}
