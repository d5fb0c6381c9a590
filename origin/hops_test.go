package origin

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestMaxForwards(t *testing.T) {
	var calls atomic.Int64
	s := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header()["X-Got"] = r.Header["Max-Forwards"]
	})
	p := newPool(t, Config{}, s.URL)
	for name, tt := range map[string]struct {
		method, in, want string
		status           int
		calls            int64
	}{
		"RFC 9110 §7.6.2 OPTIONS 3":      {"OPTIONS", "3", "2", 200, 1},
		"RFC 9110 §7.6.2 TRACE 1":        {"TRACE", "1", "0", 200, 1},
		"RFC 9110 §7.6.2 OPTIONS 0":      {"OPTIONS", "0", "", 200, 0},
		"RFC 9110 §7.6.2 TRACE 0":        {"TRACE", "0", "", 405, 0},
		"RFC 9110 §7.6.2 GET may ignore": {"GET", "0", "0", 200, 1},
		"not a number":                   {"OPTIONS", "-1", "-1", 200, 1},
	} {
		t.Run(name, func(t *testing.T) {
			calls.Store(0)
			r := inbound(tt.method, "/", nil)
			r.Header.Set("Max-Forwards", tt.in)
			resp, _ := fetch(t, p, r)
			if resp.StatusCode != tt.status || resp.Header.Get("X-Got") != tt.want || calls.Load() != tt.calls {
				t.Errorf("status %d, origin called %d times with %q", resp.StatusCode, calls.Load(), resp.Header.Get("X-Got"))
			}
			if r.Header.Get("Max-Forwards") != tt.in {
				t.Error("the caller's request was changed")
			}
		})
	}
}

func TestLoop(t *testing.T) {
	s := newOrigin(t, func(http.ResponseWriter, *http.Request) {})
	p := newPool(t, Config{Via: "edge"}, s.URL)
	r := inbound("GET", "/", nil)
	r.Header["Via"] = []string{strings.Repeat("1.1 edge (x), ", MaxHops-2) + "1.1 edgeless, 1.1 edge"}
	fetch(t, p, r)
	r.Header["Via"] = append(r.Header["Via"], "2 edge")
	_, err := roundTrip(p, r)
	if got := classOf(t, err); got != ClassLoop || got.Status() != http.StatusLoopDetected {
		t.Errorf("class %v, status %d", got, got.Status())
	}
}
