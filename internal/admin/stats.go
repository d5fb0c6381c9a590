package admin

import (
	"net/http"

	"github.com/swrproxy/swrproxy/cache"
)

// StatsAnswer are figures of now, and of the stores counters since the start.
type StatsAnswer struct {
	// Fills is how many fills run, Waiting how many readers wait for one, Refills how many URLs a purge left to be fetched.
	Fills   int `json:"fills"`
	Waiting int `json:"waiting"`
	Refills int `json:"refills"`
	// Invalidations is how many a look-up may have to consider.
	Invalidations int `json:"invalidations"`
	// Tiers are the stores by name.
	Tiers map[string]TierStats `json:"tiers"`
}

// TierStats are a store's figures.
type TierStats struct {
	Records  int64 `json:"records"`
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes"`
	// Counters since the start: dropped for room, refused admission, dropped after their last use, purged, found broken.
	Evicted  int64 `json:"evicted"`
	Rejected int64 `json:"rejected"`
	Expired  int64 `json:"expired"`
	Purged   int64 `json:"purged"`
	Damaged  int64 `json:"damaged"`
}

func (a *api) stats(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery != "" {
		writeBad(w, &badInput{field: "query", value: clip(r.URL.RawQuery), why: "is not for this path", mend: "leave it out"})
		return
	}
	s := a.cache.Stats()
	ans := StatsAnswer{
		Fills: s.Fills, Waiting: s.Waiting, Refills: a.refiller.waiting(), Invalidations: s.Invalidations,
		Tiers: make(map[string]TierStats, len(a.tiers)),
	}
	for name, src := range a.tiers {
		ans.Tiers[name] = tierStats(src.Stats())
	}
	WriteJSON(w, http.StatusOK, ans)
}

func tierStats(s cache.StoreStats) TierStats {
	return TierStats{s.Records, s.Bytes, s.Max, s.Evicted, s.Rejected, s.Expired, s.Purged, s.Damaged}
}
