package cache_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// checkQuiet checks what must hold when all actors rest and all fills have ended.
func (m *model) checkQuiet() {
	m.quiet.Store(true)
	defer m.quiet.Store(false)
	m.origin.calmDown(true)
	defer m.origin.calmDown(false)
	for _, check := range []func(){m.checkGauges, m.checkStore, m.checkPaths, m.checkSoftPurge, m.checkCounts, m.checkSlowReader, m.checkGauges, m.checkStore} {
		if m.failed.Load() {
			return
		}
		m.settle()
		check()
	}
}

func (m *model) checkGauges() {
	s := m.house.Load().c.Stats()
	if s.Fills != 0 || s.Waiting != 0 || s.Invalidations != 0 {
		m.fail(0, "at rest: %d fills, %d readers wait, %d entries in the log", s.Fills, s.Waiting, s.Invalidations)
	}
}

// checkStore checks the store and each record in it.
func (m *model) checkStore() {
	s := m.house.Load().store
	m.sync(s)
	cachetest.CheckInvariants(m.T, s.inner())
	s.inner().(cache.Walker).Walk(func(rec *cache.Record) bool {
		m.checkStored(rec)
		return !m.failed.Load()
	})
}

func (m *model) sync(s modelStore) {
	if err := s.Sync(context.Background()); err != nil {
		m.fail(0, "sync: %v", err)
	}
}

// checkPaths asks for every URL and choice of fields on the hit path and on the ordinary one.
func (m *model) checkPaths() {
	for u := range numURLs {
		for i := range 9 {
			a := &actor{m: m, rng: m.rng}
			q := a.ask(u, http.MethodGet)
			for name, v := range map[string]string{"Accept-Language": []string{"", "de", "en"}[i%3], "Accept-Encoding": []string{"", "gzip", "br"}[i/3]} {
				if v != "" {
					q.header.Set(name, v)
				}
			}
			if u == keyedURL {
				q.header.Set("X-Key", []string{"1", "2"}[i%2])
			}
			x, _ := m.explain(q)
			m.checkExplained(q, &x)
			m.hit(q)
			q.header.Set("Cache-Control", "only-if-cached")
			q.cached = true
			m.serve(context.Background(), q, 0)
		}
	}
}

// matching counts the responses in the store that a selector's URLs and tags reach.
func (m *model) matching(urls []int, byTags []string) (n int) {
	m.house.Load().store.inner().(cache.Walker).Walk(func(rec *cache.Record) bool {
		if rec.Index != nil {
			return true
		}
		u := m.urlOf(rec)
		tagged := len(byTags) == 0 || slices.ContainsFunc(rec.Tags, func(t string) bool { return slices.Contains(byTags, t) })
		if slices.Contains(urls, u) && tagged {
			n++
		}
		return true
	})
	return n
}

func (m *model) urlOf(rec *cache.Record) int {
	c, ok := contentOf(rec.Fields.Get("Etag"))
	if !ok {
		m.fail(0, "record %q has no content", rec.Key)
	}
	return c.url
}

// checkCounts purges, with a dry run before: the counts are those of the store.
func (m *model) checkCounts() {
	h := m.house.Load()
	u := m.rng.IntN(numURLs)
	sel, urls, byTags := drawSelector(m.rng, u)
	soft := m.rng.IntN(2) == 0
	want := m.matching(urls, byTags)
	for _, opt := range []cache.PurgeOptions{{DryRun: true}, {Soft: soft}} {
		var b ban
		if !opt.DryRun {
			b = ban{versions: m.origin.raise(urls), tags: byTags, soft: opt.Soft}
		}
		told := 0
		opt.Reached = func(string) { told++ }
		res, err := h.c.Purge(context.Background(), sel, opt)
		if err != nil {
			m.fail(u, "purge %+v: %v", sel, err)
			return
		}
		m.noteAll(urls, "purge %+v soft %t dry %t at rest: %v are over", sel, opt.Soft, opt.DryRun, b.versions)
		if res.Records != want || len(res.Keys) != min(want, 100) || told != want {
			m.fail(u, "purge %+v (soft %t, dry %t) tells of %d records, %d keys, %d URLs; the store has %d", sel, opt.Soft, opt.DryRun, res.Records, len(res.Keys), told, want)
			return
		}
		if !opt.DryRun {
			m.truth.add(b)
			over := m.truth.touched(m, "purge", urls...)
			over()
		}
	}
	left := want
	if !soft {
		left = 0
	}
	if n := m.matching(urls, byTags); n != left {
		m.fail(u, "purge %+v (soft %t) of %d records leaves %d", sel, soft, want, n)
	}
}

// checkSoftPurge purges softly: no deadline moves later.
func (m *model) checkSoftPurge() {
	if m.rng.IntN(2) == 0 {
		return
	}
	h := m.house.Load()
	u := m.rng.IntN(numURLs)
	sel, urls, byTags := drawSelector(m.rng, u)
	before := m.explainAll()
	versions := m.origin.raise(urls)
	m.noteAll(urls, "soft purge %+v at rest: %v are over", sel, versions)
	if _, err := h.c.Purge(context.Background(), sel, cache.PurgeOptions{Soft: true}); err != nil {
		m.fail(u, "soft purge %+v: %v", sel, err)
		return
	}
	m.truth.add(ban{versions: versions, tags: byTags, soft: true})
	over := m.truth.touched(m, "purge", urls...)
	over()
	after := m.explainAll()
	for key, was := range before {
		is, ok := after[key]
		if ok && is.Stored && was.Stored && (is.FreshUntil.After(was.FreshUntil) || is.StaleUntil.After(was.StaleUntil) || is.ErrorUntil.After(was.ErrorUntil)) {
			m.fail(key.url, "soft purge %+v moved deadlines of %v, tokens %d and %d, later: %v, %v, %v to %v, %v, %v", sel, key, was.Token, is.Token,
				since(was.FreshUntil), since(was.StaleUntil), since(was.ErrorUntil), since(is.FreshUntil), since(is.StaleUntil), since(is.ErrorUntil))
		}
	}
}

// explained is a key of explainAll.
type explained struct {
	url                  int
	language, enc, keyed string
}

func (m *model) explainAll() map[explained]cache.Explanation {
	out := map[explained]cache.Explanation{}
	for u := range numURLs {
		for i := range 9 {
			key := explained{u, []string{"", "de", "en"}[i%3], []string{"", "gzip", "br"}[i/3], ""}
			q := (&actor{m: m}).ask(u, http.MethodGet)
			for name, v := range map[string]string{"Accept-Language": key.language, "Accept-Encoding": key.enc} {
				if v != "" {
					q.header.Set(name, v)
				}
			}
			if u == keyedURL {
				key.keyed = []string{"1", "2"}[i%2]
				q.header.Set("X-Key", key.keyed)
			}
			out[key], _ = m.explain(q)
		}
	}
	return out
}

// checkSlowReader holds a reader of what is too large to be stored up, and purges: the log is empty all the same.
func (m *model) checkSlowReader() {
	if m.rng.IntN(3) > 0 {
		return
	}
	q := (&actor{m: m}).ask(overURL, http.MethodGet)
	w := pacedWriter{ResponseRecorder: httptest.NewRecorder(), open: make(chan struct{})}
	done := make(chan bool)
	go func() { done <- m.handle(context.Background(), q, w, nil) }()
	time.Sleep(quick)
	synctest.Wait()
	versions := m.origin.raise([]int{plainURL})
	sel := cache.Selector{URL: resources[plainURL].url()}
	if _, err := m.house.Load().c.Purge(context.Background(), sel, cache.PurgeOptions{}); err != nil {
		m.fail(plainURL, "purge: %v", err)
	}
	m.truth.add(ban{versions: versions})
	over := m.truth.touched(m, "purge", plainURL)
	over()
	synctest.Wait()
	if n := m.house.Load().c.Stats().Invalidations; n != 0 {
		m.fail(overURL, "%d entries of the log wait for a fill that stores nothing", n)
	}
	close(w.open)
	if whole := <-done; !whole || w.Body.Len() != resources[overURL].size {
		m.fail(overURL, "a slow reader got %d bytes, whole: %t", w.Body.Len(), whole)
	}
}
