package cache_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// floor says which versions of a URL may not be served any more: those below all, and of those with a tag those below the tag's.
type floor struct {
	all  int
	tags map[string]int
}

func (f floor) takes(url, version int) bool {
	if version < f.all {
		return true
	}
	for _, t := range tags(url, version) {
		if version < f.tags[t] {
			return true
		}
	}
	return false
}

// raised returns the floor with one more invalidation; tag "" means the whole URL.
func (f floor) raised(tag string, to int) floor {
	if tag == "" {
		f.all = max(f.all, to)
		return f
	}
	f.tags = maps.Clone(f.tags)
	if f.tags == nil {
		f.tags = map[string]int{}
	}
	f.tags[tag] = max(f.tags[tag], to)
	return f
}

// softened is one soft invalidation that has been answered: what it reaches is fresh until then at most.
type softened struct {
	floor floor
	at    time.Time
}

// floors are what invalidations that have been answered say of each URL: hard ones, and soft ones. Immutable.
type floors struct {
	hard, soft [numURLs]floor
	softened   [numURLs][]softened
}

// ban is one invalidation: URLs of which versions below a number are over.
type ban struct {
	versions map[int]int // by URL
	tags     []string    // none: all of these URLs' versions
	soft     bool
	weak     bool // holds in this process, but a crash may undo it
}

// touch is something that may take a stored response of a URL away: an invalidation, a HEAD, an eviction.
type touch struct {
	what       string
	began, end uint64 // ticks; end is 0 while it goes on
}

// seen is the latest hit of a URL for one choice of request fields.
type seen struct {
	content  content
	since    uint64 // the tick at which the exchange began that the record is from
	tick     uint64 // of the hit
	freshTil time.Time
}

// truth is what the model knows: which content may still be served. Safe for concurrent use.
type truth struct {
	mu      sync.Mutex // guards following
	now     floors
	durable floors
	touches [numURLs][]*touch
	seen    map[string]seen
}

func (tr *truth) floors() floors {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.now
}

// add notes an invalidation that was answered.
func (tr *truth) add(b ban) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.now.add(b)
	if !b.weak {
		tr.durable.add(b)
	}
}

func (f *floors) add(b ban) {
	list := &f.hard
	if b.soft {
		list = &f.soft
	}
	for u, v := range b.versions {
		list[u] = list[u].with(b.tags, v)
		if b.soft {
			f.softened[u] = append(slices.Clip(f.softened[u]), softened{floor{}.with(b.tags, v), time.Now()})
		}
	}
}

// with returns the floor with one more invalidation, by tags if there are any.
func (f floor) with(byTags []string, to int) floor {
	if len(byTags) == 0 {
		return f.raised("", to)
	}
	for _, t := range byTags {
		f = f.raised(t, to)
	}
	return f
}

// touched notes the beginning of something; the caller calls over at its end.
func (tr *truth) touched(m *model, what string, urls ...int) (over func()) {
	t := &touch{what: what, began: m.tick()}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, u := range urls {
		tr.touches[u] = append(tr.touches[u], t)
	}
	return func() {
		end := m.tick()
		tr.mu.Lock()
		defer tr.mu.Unlock()
		t.end = end
	}
}

// since tells whether anything but a HEAD went on at or after a tick, or a HEAD began after it.
func (tr *truth) sinceLocked(u int, tick uint64) bool {
	return slices.ContainsFunc(tr.touches[u], func(t *touch) bool {
		if t.what == "HEAD" {
			return t.began > tick
		}
		return t.end == 0 || t.end > tick
	})
}

// crash takes back what a crash may undo.
func (tr *truth) crash() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.now = tr.durable
}

// forget drops what was seen: another cache is in use.
func (tr *truth) forget() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	clear(tr.seen)
}

// request is one read of the model.
type request struct {
	house  *house
	url    int
	method string
	header http.Header
	fast   bool // on the hit path
	plain  bool // a GET without conditions, ranges, directives
	cached bool // only-if-cached
	began  uint64
	at     time.Time
	floors floors
}

func (q *request) String() string {
	way := "ordinary"
	if q.fast {
		way = "hit path"
	}
	return fmt.Sprintf("%s %s %v (%s, tick %d)", q.method, resources[q.url].path, q.header, way, q.began)
}

// choice is what of the request may choose a variant.
func (q *request) choice() string {
	return fmt.Sprint(q.url, "|", q.header.Get("Accept-Language"), "|", q.header.Get("Accept-Encoding"), "|", keyedBy(q.url, q.header))
}

// checkAnswer checks one answer against all that is promised.
func (m *model) checkAnswer(q *request, a *answer) {
	members := a.header["Cache-Status"]
	m.note(q.url, "%v: %d %s, %q", q, a.status, a.header.Get("Etag"), members)
	if len(members) != 1 && !q.house.shut.Load() || len(members) > 1 {
		m.fail(q.url, "%v: Cache-Status %q", q, members)
		return
	}
	switch a.status {
	case http.StatusOK, http.StatusPartialContent, http.StatusNotModified:
		if !m.checkContent(q, a) {
			return
		}
	case http.StatusNotFound, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
	case http.StatusGatewayTimeout, http.StatusBadGateway, http.StatusServiceUnavailable:
		if resources[q.url].steady && !q.cached && !q.house.shut.Load() && m.profile.concurrency < 0 {
			m.fail(q.url, "%v: %d, the origin answers well", q, a.status)
		}
	default:
		m.fail(q.url, "%v: status %d", q, a.status)
	}
	m.checkKept(q, a)
}

// checkContent checks which version an answer shows, and that it is whole.
func (m *model) checkContent(q *request, a *answer) bool {
	c, ok := contentOf(a.header.Get("Etag"))
	switch {
	case !ok || c.url != q.url || !c.suits(q.header):
		return m.fail(q.url, "%v: content %q", q, a.header.Get("Etag"))
	case c.version > m.origin.version(q.url):
		return m.fail(q.url, "%v: version %d is none yet", q, c.version)
	case q.floors.hard[q.url].takes(c.url, c.version):
		return m.fail(q.url, "%v: version %d, which was purged before the read began", q, c.version)
	case freshHit(a) && q.floors.soft[q.url].takes(c.url, c.version):
		return m.fail(q.url, "%v: version %d as fresh, which was purged softly before the read began", q, c.version)
	}
	return m.checkBody(q, a, c)
}

// status is the one member of Cache-Status.
func cacheStatus(a *answer) string { return strings.Join(a.header["Cache-Status"], ", ") }

func isHit(a *answer) bool { return strings.HasPrefix(cacheStatus(a), "swrproxy; hit") }

func freshHit(a *answer) bool { return isHit(a) && !strings.Contains(cacheStatus(a), "detail=") }

// ttl is how long a hit is still fresh at least.
func ttl(a *answer) time.Duration {
	_, rest, _ := strings.Cut(cacheStatus(a), "ttl=")
	digits, _, _ := strings.Cut(rest, ";")
	n, _ := strconv.Atoi(digits)
	return time.Duration(n) * time.Second
}

func (m *model) checkBody(q *request, a *answer, c content) bool {
	if a.status == http.StatusNotModified || q.method == http.MethodHead {
		return true
	}
	want := c.body()
	if a.status == http.StatusPartialContent {
		var first, last, size int
		if _, err := fmt.Sscanf(a.header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); err != nil || size != len(want) {
			return m.fail(q.url, "%v: Content-Range %q", q, a.header.Get("Content-Range"))
		}
		want = want[first : last+1]
	}
	if a.body != want {
		return m.fail(q.url, "%v: %d bytes of %s, want %d: %.80q", q, len(a.body), c.etag(), len(want), a.body)
	}
	if resources[q.url].chunked && a.status == http.StatusOK && q.header.Get("Range") == "" {
		if a.trailer.Get("X-Sum") != c.etag() || a.trailer.Get("X-Late") != "yes" || len(a.trailer) != 2 {
			return m.fail(q.url, "%v: trailer %v of %s", q, a.trailer, c.etag())
		}
	}
	return true
}

// checkKept checks what is known of this choice from an earlier hit: a fresh record stays, and is followed by newer ones only, unless
// something that began after its own exchange may have taken it away.
func (m *model) checkKept(q *request, a *answer) {
	if !m.profile.ordered || q.house.shut.Load() {
		return
	}
	m.truth.mu.Lock()
	defer m.truth.mu.Unlock()
	was, known := m.truth.seen[q.choice()]
	if known && was.tick < q.began && !m.truth.sinceLocked(q.url, was.since) && !m.oddSince(q.url, was.since) {
		m.checkAgainst(q, a, was)
	}
	m.rememberLocked(q, a)
}

// oddSince tells whether an exchange that began after a tick may have taken a record away.
func (m *model) oddSince(u int, tick uint64) bool {
	return slices.ContainsFunc(m.origin.since(u, tick), func(x exchange) bool { return x.odd })
}

func (m *model) checkAgainst(q *request, a *answer, was seen) {
	c, ok := contentOf(a.header.Get("Etag"))
	if ok && isHit(a) && c.version < was.content.version {
		m.fail(q.url, "%v: a hit of version %d after one of version %d at tick %d", q, c.version, was.content.version, was.tick)
		return
	}
	others := slices.ContainsFunc(m.origin.since(q.url, was.since), func(x exchange) bool { return x.began < q.began })
	if q.plain && !others && q.at.Before(was.freshTil) && !isHit(a) {
		m.fail(q.url, "%v: no hit, though version %d was stored by the latest exchange (began at tick %d), hit at tick %d and is fresh until %v",
			q, was.content.version, was.since, was.tick, since(was.freshTil))
	}
}

func (m *model) rememberLocked(q *request, a *answer) {
	c, ok := contentOf(a.header.Get("Etag"))
	x, err := strconv.Atoi(a.header.Get("X-Exchange"))
	if !ok || err != nil || !freshHit(a) {
		return
	}
	from, ok := m.origin.get(x)
	now := m.tick()
	if was := m.truth.seen[q.choice()]; ok && from.began >= was.since && c.version >= was.content.version {
		m.truth.seen[q.choice()] = seen{content: c, since: from.began, tick: now, freshTil: q.at.Add(ttl(a) - time.Second)}
	}
}

// checkExplained checks what Explain says of a key.
func (m *model) checkExplained(q *request, x *cache.Explanation) {
	if !x.Stored {
		return
	}
	if x.FreshUntil.After(x.StaleUntil) || x.FreshUntil.After(x.ErrorUntil) {
		m.fail(q.url, "explain %v: fresh until %v, stale until %v, for errors until %v", q, x.FreshUntil, x.StaleUntil, x.ErrorUntil)
	}
	c, ok := contentOf(x.Fields.Get("Etag"))
	if x.Status == http.StatusNotFound || x.Status == http.StatusServiceUnavailable {
		return
	}
	switch {
	case !ok || c.url != q.url || !c.suits(q.header):
		m.fail(q.url, "explain %v: content %q", q, x.Fields.Get("Etag"))
	case q.floors.hard[q.url].takes(c.url, c.version):
		m.fail(q.url, "explain %v: version %d, which was purged before, is stored", q, c.version)
	case q.floors.soft[q.url].takes(c.url, c.version) && x.FreshUntil.After(q.at):
		m.fail(q.url, "explain %v: version %d, which was purged softly before, is fresh for %v", q, c.version, x.FreshUntil.Sub(q.at))
	}
}

// checkStored checks a record that a walk found when nothing went on and the log was empty: it is whole, and no invalidation took it.
func (m *model) checkStored(rec *cache.Record) {
	if rec.Index != nil || rec.Status == http.StatusNotFound {
		return
	}
	c, ok := contentOf(rec.Fields.Get("Etag"))
	if !ok {
		m.fail(0, "record %q has no content: %v", rec.Key, rec.Fields.Block())
		return
	}
	f := m.truth.floors()
	switch {
	case f.hard[c.url].takes(c.url, c.version):
		m.fail(c.url, "version %d of %s, which was purged, is stored under %q, token %d", c.version, resources[c.url].path, rec.Key, rec.Token)
	case rec.Partial == nil && rec.Body.Size() != int64(resources[c.url].size):
		m.fail(c.url, "%d bytes of %s are stored", rec.Body.Size(), c.etag())
	}
	end := rec.Life.BornAt.Add(rec.Life.FreshFor)
	for _, soft := range f.softened[c.url] {
		if soft.floor.takes(c.url, c.version) && end.After(soft.at) {
			m.fail(c.url, "version %d of %s, which was purged softly at %v, is fresh in the store until %v", c.version, resources[c.url].path, since(soft.at), since(end))
		}
	}
}
