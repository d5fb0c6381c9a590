package telemetry

import (
	"strings"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// sampled tells whether this request is one of those to write. Errors always are.
func (t *Telemetry) sampled(ev *cache.ReadEvent) bool {
	if t.access.Every == 1 || ev.Result == cache.ResultError {
		return true
	}
	return t.seen.Add(1)%t.access.Every == 0
}

// writeAccess writes a request's line.
func (t *Telemetry) writeAccess(ev *cache.ReadEvent) {
	e := t.logger.Info()
	if e == nil {
		return
	}
	e.Str("method", ev.Method).Str("scheme", ev.Scheme).Str("host", ev.Host).Str("path", ev.Path)
	if t.access.Query && ev.Query != "" {
		e.Str("query", ev.Query)
	}
	e.Int("status", ev.Status).Int64("bytes", ev.Bytes).Float64("took_ms", milliseconds(ev.Took))
	e.Stringer("result", ev.Result).Stringer("reason", ev.Reason)
	e.Str("rule", ev.Rule).Str("remote", ev.Remote).Str("proto", ev.Proto)
	if ev.ClientGone {
		e.Bool("client_gone", true)
	}
	if ev.Err != nil {
		e.Str("error", t.redact(ev.Err.Error()))
	}
	e.Msg("request")
}

// milliseconds has the microsecond as its last digit.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// redact takes query strings out of a text that may quote URLs, unless they were asked for.
func (t *Telemetry) redact(s string) string {
	if t.access.Query || !strings.Contains(s, "?") {
		return s
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("?…")
		s = rest[endOfQuery(rest):]
	}
}

// endOfQuery returns where a query that begins at s ends: at the first byte that RFC 3986 §3.4 does not allow in one, or
// that usually stands behind a quoted URL.
func endOfQuery(s string) int {
	if i := strings.IndexAny(s, " \t\r\n\x00\"<>`"); i >= 0 {
		return i
	}
	return len(s)
}

// readableKey returns the URL part of a stored key, without its query.
func (t *Telemetry) readableKey(key string) string {
	if _, rest, ok := strings.Cut(key, "\x00"); ok {
		key, _, _ = strings.Cut(rest, "\x00")
	}
	return t.redact(key)
}
