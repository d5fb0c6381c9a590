package policy

import (
	"testing"
	"time"
)

// judged is a life born at t0: fresh for 10 s, then 20 s stale-while-revalidate and 60 s stale-if-error.
func judged(flags LifeFlags) Life {
	return Life{BornAt: t0, FreshFor: 10 * sec, StaleFor: 20 * sec, ErrorFor: 60 * sec, Flags: flags}
}

func TestJudge(t *testing.T) {
	plain := Life{BornAt: t0, FreshFor: 10 * sec}
	for name, tt := range map[string]struct {
		life    Life
		control string
		age     time.Duration
		use     Use
		reason  Reason
	}{
		"RFC 9111 §4.2 fresh":                        {plain, "", 9 * sec, Fresh, ReasonFresh},
		"RFC 9111 §4.2 fresh to the last nanosecond": {plain, "", 10*sec - 1, Fresh, ReasonFresh},
		"RFC 9111 §4.2 lifetime over":                {plain, "", 10 * sec, MustWait, ReasonExpired},
		"clock behind the birth":                     {plain, "", -time.Hour, Fresh, ReasonFresh},
		"RFC 5861 §3 inside the window":              {judged(0), "", 10 * sec, StaleWhileRevalidate, ReasonStaleWhileRevalidate},
		"RFC 5861 §3 window over":                    {judged(0), "", 30 * sec, MustWait, ReasonExpired},
		"RFC 9111 §5.2.2.2 must-revalidate, fresh":   {judged(MustRevalidate), "", 9 * sec, Fresh, ReasonFresh},
		"RFC 9111 §5.2.2.2 must-revalidate, stale":   {judged(MustRevalidate), "", 11 * sec, MustWait, ReasonMustRevalidate},
		"deviation: s-maxage and explicit window":    {judged(MustRevalidate | OriginStale), "", 11 * sec, StaleWhileRevalidate, ReasonStaleWhileRevalidate},
		"s-maxage after the explicit window":         {judged(MustRevalidate | OriginStale), "max-stale", 31 * sec, MustWait, ReasonMustRevalidate},
		"RFC 9111 §5.2.2.4 no-cache":                 {judged(NoCache), "", 0, MustWait, ReasonNoCache},
		"RFC 9111 §5.2.2.4 no-cache and max-stale":   {judged(NoCache), "max-stale", 11 * sec, MustWait, ReasonNoCache},

		"RFC 9111 §5.2.1.4 request no-cache":             {plain, "no-cache", 0, MustWait, ReasonRequestNoCache},
		"RFC 9111 §5.2.1.4 request no-cache, immutable":  {judged(Immutable), "no-cache", 0, MustWait, ReasonRequestNoCache},
		"RFC 9111 §5.2.1.1 request max-age met":          {plain, "max-age=5", 5 * sec, Fresh, ReasonFresh},
		"RFC 9111 §5.2.1.1 request max-age exceeded":     {plain, "max-age=5", 6 * sec, MustWait, ReasonRequestMaxAge},
		"RFC 9111 §5.2.1.1 request max-age=0":            {plain, "max-age=0", 1, MustWait, ReasonRequestMaxAge},
		"RFC 9111 §5.2.1.1 max-age refuses stale":        {judged(0), "max-age=15", 11 * sec, MustWait, ReasonRequestMaxAge},
		"RFC 9111 §5.2.1.1 max-age with max-stale":       {judged(0), "max-age=15, max-stale", 11 * sec, StaleWhileRevalidate, ReasonStaleWhileRevalidate},
		"RFC 9111 §5.2.1.1 max-age exceeded, max-stale":  {judged(0), "max-age=15, max-stale", 16 * sec, MustWait, ReasonRequestMaxAge},
		"RFC 8246 §2.1 reload of what is immutable":      {judged(Immutable), "max-age=0", 5 * sec, Fresh, ReasonFresh},
		"RFC 8246 §2.1 reload of what was immutable":     {judged(Immutable), "max-age=0", 11 * sec, MustWait, ReasonRequestMaxAge},
		"RFC 9111 §5.2.1.3 min-fresh met":                {plain, "min-fresh=5", 5 * sec, Fresh, ReasonFresh},
		"RFC 9111 §5.2.1.3 min-fresh missed":             {plain, "min-fresh=5", 6 * sec, MustWait, ReasonRequestMinFresh},
		"RFC 9111 §5.2.1.3 min-fresh refuses stale":      {judged(0), "min-fresh=0", 11 * sec, MustWait, ReasonRequestMinFresh},
		"RFC 9111 §5.2.1.2 max-stale met":                {plain, "max-stale=5", 15 * sec, StaleWhileRevalidate, ReasonMaxStale},
		"RFC 9111 §5.2.1.2 max-stale exceeded":           {plain, "max-stale=5", 15*sec + 1, MustWait, ReasonRequestMaxStale},
		"RFC 9111 §5.2.1.2 max-stale without value":      {plain, "max-stale", 1e6 * sec, StaleWhileRevalidate, ReasonMaxStale},
		"RFC 9111 §5.2.1.2 max-stale narrows the window": {judged(0), "max-stale=5", 16 * sec, MustWait, ReasonRequestMaxStale},
		"RFC 9111 §4.2.4 max-stale and must-revalidate":  {judged(MustRevalidate), "max-stale", 11 * sec, MustWait, ReasonMustRevalidate},
		"RFC 9111 §5.2.1.7 only-if-cached is no verdict": {plain, "only-if-cached", 11 * sec, MustWait, ReasonExpired},
		"soft-purged":                        {judged(0).Expire(t0.Add(sec)), "", sec, StaleWhileRevalidate, ReasonStaleWhileRevalidate},
		"soft-purged, must-revalidate":       {judged(MustRevalidate).Expire(t0.Add(sec)), "", sec, MustWait, ReasonNoCache},
		"the zero life has expired long ago": {Life{}, "", 0, MustWait, ReasonExpired},
	} {
		t.Run(name, func(t *testing.T) {
			req := reads()
			if tt.control != "" {
				req = reads("Cache-Control: " + tt.control)
			}
			if got := Judge(tt.life, req, t0.Add(tt.age)); got != (Verdict{tt.use, tt.reason}) {
				t.Errorf("Judge = %v, %v; want %v, %v", got.Use, got.Reason, tt.use, tt.reason)
			}
		})
	}
}

func TestOnError(t *testing.T) {
	plain := Life{BornAt: t0, FreshFor: 10 * sec}
	for name, tt := range map[string]struct {
		life    Life
		control string
		age     time.Duration
		ok      bool
		reason  Reason
	}{
		"RFC 5861 §4 inside the window":              {judged(0), "", 69 * sec, true, ReasonStaleIfError},
		"RFC 5861 §4 window over":                    {judged(0), "", 70 * sec, false, ReasonExpired},
		"no window":                                  {plain, "", 11 * sec, false, ReasonExpired},
		"RFC 5861 §3 window allows it too":           {Life{BornAt: t0, StaleFor: 5 * sec}, "", 4 * sec, true, ReasonStaleWhileRevalidate},
		"RFC 5861 §4 request's window":               {plain, "stale-if-error=5", 14 * sec, true, ReasonStaleIfError},
		"RFC 5861 §4 request's window over":          {plain, "stale-if-error=5", 15 * sec, false, ReasonExpired},
		"RFC 9111 §5.2.1.2 max-stale":                {plain, "max-stale=5", 15 * sec, true, ReasonMaxStale},
		"RFC 9111 §5.2.1.2 max-stale over":           {plain, "max-stale=5", 16 * sec, false, ReasonExpired},
		"RFC 9111 §4.2.4 must-revalidate":            {judged(MustRevalidate), "stale-if-error=99, max-stale", 11 * sec, false, ReasonMustRevalidate},
		"RFC 9111 §4.2.4 no-cache":                   {judged(NoCache), "", 0, false, ReasonNoCache},
		"deviation: explicit window beside s-maxage": {judged(MustRevalidate | OriginStale), "", 11 * sec, true, ReasonStaleIfError},
		"s-maxage after the explicit windows":        {judged(MustRevalidate | OriginStale), "max-stale, stale-if-error=999", 71 * sec, false, ReasonMustRevalidate},
		"still fresh, the request wanted validation": {plain, "no-cache", 9 * sec, true, ReasonFresh},
	} {
		t.Run(name, func(t *testing.T) {
			req := reads()
			if tt.control != "" {
				req = reads("Cache-Control: " + tt.control)
			}
			if ok, reason := OnError(tt.life, req, t0.Add(tt.age)); ok != tt.ok || reason != tt.reason {
				t.Errorf("OnError = %v, %v; want %v, %v", ok, reason, tt.ok, tt.reason)
			}
		})
	}
}

// A soft purge may be repeated, may come late, and never makes anything last longer.
func TestExpire(t *testing.T) {
	for _, flags := range []LifeFlags{0, MustRevalidate, MustRevalidate | OriginStale, NoCache, Immutable} {
		l := judged(flags)
		for _, at := range []time.Duration{-5 * sec, 0, 3 * sec, 10 * sec, 15 * sec, 1000 * sec} {
			purged := l.Expire(t0.Add(at))
			if purged.TTL(t0.Add(max(at, 0))) > 0 {
				t.Errorf("flags %b, purged at %v: still fresh", flags, at)
			}
			if purged.Age(t0.Add(at)) < l.FreshFor && at >= 0 {
				t.Errorf("flags %b, purged at %v: age %v looks fresh to others", flags, at, purged.Age(t0.Add(at)))
			}
			if purged.FreshFor > l.FreshFor || purged.StaleFor > l.StaleFor || purged.ErrorFor > l.ErrorFor || purged.BornAt.After(l.BornAt) {
				t.Errorf("flags %b, purged at %v: %+v outlives %+v", flags, at, purged, l)
			}
			again := purged.Expire(t0.Add(at + 2*sec))
			if again != purged {
				t.Errorf("flags %b, purged at %v and again: %+v, want %+v", flags, at, again, purged)
			}
			if flags&(MustRevalidate|NoCache) != 0 {
				if ok, r := OnError(purged, reads(), t0.Add(at)); ok || r != ReasonNoCache {
					t.Errorf("flags %b, purged at %v: usable without validation (%v)", flags, at, r)
				}
			}
		}
	}
}

func TestJudgeDoesNotAllocate(t *testing.T) {
	req := reads("Cache-Control: max-stale=5")
	var v Verdict
	if n := testing.AllocsPerRun(100, func() { v = Judge(judged(0), req, t0.Add(11*sec)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	_ = v
}
