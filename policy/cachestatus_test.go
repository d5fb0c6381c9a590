package policy

import (
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"
)

func TestCacheStatus(t *testing.T) {
	for want, c := range map[string]CacheStatus{
		"swrproxy":              {},
		"swrproxy; hit; ttl=30": {Hit: true, TTL: 30, HasTTL: true},
		"swrproxy; hit; ttl=-5; detail=stale-while-revalidate":      {Hit: true, TTL: -5, HasTTL: true, Detail: "stale-while-revalidate"},
		"swrproxy; fwd=uri-miss; fwd-status=200; stored":            {Fwd: FwdURIMiss, FwdStatus: 200, Stored: true},
		"swrproxy; fwd=stale; fwd-status=304; ttl=10; collapsed":    {Fwd: FwdStale, FwdStatus: 304, TTL: 10, HasTTL: true, Collapsed: true},
		`swrproxy; fwd=bypass; key="s\"\\?GET"; detail="two words"`: {Fwd: FwdBypass, Key: "s\"\\\x00GET", Detail: "two words"},
		"swrproxy; hit":        {Hit: true, Fwd: FwdStale},
		"swrproxy; hit; ttl=0": {Hit: true, HasTTL: true},
	} {
		got := string(c.Append(nil))
		if got != want {
			t.Errorf("RFC 9211 §2: %s, want %s", got, want)
		}
		if _, err := httpsfv.UnmarshalList([]string{got}); err != nil {
			t.Errorf("%s is no structured field: %v", got, err)
		}
	}
}

// The short way to write a hit gives the bytes of the general one, whatever the reason.
func TestAppendHit(t *testing.T) {
	for _, ttl := range []time.Duration{0, 30 * sec, -1, -5 * sec, Forever} {
		for detail := Reason(0); int(detail) < len(reasonNames); detail++ {
			want := CacheStatus{Hit: true, TTL: Seconds(ttl), HasTTL: true, Detail: detail.String()}
			if got := string(AppendHit(nil, ttl, detail)); got != string(want.Append(nil)) {
				t.Errorf("%v, %d: %s, want %s", ttl, detail, got, want.Append(nil))
			}
		}
	}
}

func TestAddCacheStatus(t *testing.T) {
	upstream := []string{"origin; hit"}
	h := http.Header{"Cache-Status": upstream[:1:1]}
	AddCacheStatus(h, &CacheStatus{Hit: true})
	if diff := cmp.Diff([]string{"origin; hit", "swrproxy; hit"}, h["Cache-Status"]); diff != "" {
		t.Errorf("RFC 9211 §2 order (-want +got):\n%s", diff)
	}
}

func TestSeconds(t *testing.T) {
	for ttl, want := range map[time.Duration]int{
		0: 0, 1: 0, sec: 1, 1999 * time.Millisecond: 1, -1: -1, -sec: -1, -1001 * time.Millisecond: -2,
	} {
		if got := Seconds(ttl); got != want {
			t.Errorf("RFC 9211 §2.4: Seconds(%v) = %d, want %d", ttl, got, want)
		}
	}
}

func TestFwdNames(t *testing.T) {
	for f := FwdBypass; f <= FwdPartial; f++ {
		if word := f.String(); !isSFToken(word) || word == "unknown" {
			t.Errorf("fwd %d is written %q", f, word)
		}
	}
}
