package policy

import (
	"net/http"
	"testing"
	"time"
)

func TestHTTPTime(t *testing.T) {
	want := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	for _, s := range []string{
		"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Fri, 06 Nov 1994 08:49:37 GMT", "Wednesday, 06-Nov-94 08:49:37 GMT",
		"SUN, 06 Nov 1994 08:49:37 GMT", "Sun, 06 NOV 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 gMT", "sunday, 06-nov-94 08:49:37 gmt", "SUN NOV  6 08:49:37 1994",
	} {
		if got, ok := HTTPTime(s); !ok || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("RFC 9110 §5.6.7: %q = %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{
		"", "0", "-1", "now", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 +0000", "Sun, 06 Nov 94 08:49:37 GMT",
		"Sun 06 Nov 1994 08:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 06  Nov 1994 08:49:37 GMT",
		"Sun, 06-Nov-1994 08:49:37 GMT", "Sun, 06 Nov 1994 08.49.37 GMT",
		"Sux, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37.5 GMT", "Sun Nov 6 08:49:37 1994 ", "Sunday, 6-Nov-94 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
		"Sun, 06 Nov 1994 08:49:37 GMT ", " Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT, x", "Sun Nov  6 08:49:37 1994 GMT",
	} {
		if got, ok := HTTPTime(s); ok {
			t.Errorf("%q was read as %v", s, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for v, want := range map[string]time.Duration{
		"120": 120 * sec, "0": 0, " 5 ": 5 * sec, date(30 * sec): 30 * sec, date(-30 * sec): 0, "99999999999": Forever,
	} {
		if got, ok := RetryAfter(fields("Retry-After: "+v), t0); !ok || got != want {
			t.Errorf("RFC 9110 §10.2.3: %q = %v, %v; want %v", v, got, ok, want)
		}
	}
	for _, h := range []http.Header{nil, fields("Retry-After:"), fields("Retry-After: -1"), fields("Retry-After: soon"), fields("Retry-After: 1.5")} {
		if got, ok := RetryAfter(h, t0); ok {
			t.Errorf("%v was read as %v", h, got)
		}
	}
}

func TestEnsureDate(t *testing.T) {
	for name, tt := range map[string]struct{ h, want http.Header }{
		"RFC 9110 §6.6.1 missing":    {fields(), fields("Date: " + date(0))},
		"RFC 9110 §6.6.1 unreadable": {fields("Date: x"), fields("Date: " + date(0))},
		"two":                        {fields("Date: "+date(sec), "Date: "+date(sec)), fields("Date: " + date(0))},
		"there":                      {fields("Date: " + date(-sec)), fields("Date: " + date(-sec))},
	} {
		if EnsureDate(tt.h, t0); tt.h.Get("Date") != tt.want.Get("Date") || len(tt.h["Date"]) != 1 {
			t.Errorf("%s: %v", name, tt.h)
		}
	}
}

func TestParseDelta(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"0": 0, "1": sec, "0060": 60 * sec, "2147483647": Forever - sec, "2147483648": Forever, "99999999999999999999999": Forever,
	} {
		if got, ok := parseDelta(s); !ok || got != want {
			t.Errorf("RFC 9111 §1.2.2: %q = %v, %v; want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "-1", "+1", "1.0", "1 ", " 1", "1s", "0x1", "１"} {
		if got, ok := parseDelta(s); ok {
			t.Errorf("%q was read as %v", s, got)
		}
	}
}
