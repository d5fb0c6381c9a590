package cache_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// actor takes one step after the other. Not safe for concurrent use.
type actor struct {
	m   *model
	rng *rand.Rand
}

var allURLs = func() (list []int) {
	for u := range numURLs {
		list = append(list, u)
	}
	return list
}()

// rest waits for a random time, and then for the next instant of the grid. Short rests and none are the most frequent, so that actors meet.
func (a *actor) rest() {
	switch n := a.rng.IntN(20); {
	case n < 11:
	case n < 17:
		time.Sleep(grid(a.m.profile.beat * a.rng.IntN(4)))
	case n < 19:
		time.Sleep(grid(a.rng.IntN(120)))
	default:
		time.Sleep(grid(25 * a.rng.IntN(20)))
	}
	a.align()
}

func (a *actor) align() {
	if off := time.Since(a.m.began) % grid(1); off > 0 {
		time.Sleep(grid(1) - off)
	}
}

func (a *actor) url() int {
	if a.rng.IntN(6) > 0 {
		return a.m.profile.hot[a.rng.IntN(len(a.m.profile.hot))]
	}
	u := a.rng.IntN(numURLs)
	if u == overURL && a.rng.IntN(2) > 0 {
		u = plainURL
	}
	return u
}

func (a *actor) step() {
	p := &a.m.profile
	switch n := a.rng.IntN(100); {
	case n < 60:
		a.read()
	case n < 68:
		a.meet()
	case n < 75:
		a.unsafe()
	case n < 84:
		a.purge()
	case n < 87:
		a.refresh()
	case n < 90:
		a.explain()
	case n < 94:
		a.raise()
	case n < 97 && p.varies:
		a.vary()
	case p.evicts:
		a.evict()
	default:
		a.read()
	}
}

// ask makes a request; floors are those before it, of the cache that gets it.
func (a *actor) ask(u int, method string) *request {
	m := a.m
	for {
		q := &request{house: m.house.Load(), url: u, method: method, header: http.Header{}, floors: m.truth.floors(), at: time.Now(), began: m.tick()}
		if m.house.Load() == q.house {
			return q
		}
	}
}

func (a *actor) one(list ...string) string { return list[a.rng.IntN(len(list))] }

// choose gives a request the fields that choose a variant.
func (a *actor) choose(q *request) {
	set := func(name, value string) {
		if value != "" {
			q.header.Set(name, value)
		}
	}
	set("Accept-Language", a.one("", "de", "de", "en"))
	set("Accept-Encoding", a.one("", "gzip", "gzip", "br"))
	if q.url == keyedURL {
		set("X-Key", a.one("1", "2"))
	}
}

func (a *actor) read() {
	q := a.ask(a.url(), http.MethodGet)
	a.choose(q)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rate := 0
	q.plain = true
	switch n := a.rng.IntN(40); {
	case n < 6:
		q.method, q.plain = http.MethodHead, false
	case n < 10:
		first := a.rng.IntN(300)
		q.header.Set("Range", fmt.Sprintf("bytes=%d-%d", first, first+a.rng.IntN(200)))
		q.plain = false
	case n < 13:
		c := content{url: q.url, version: a.m.origin.version(q.url), language: "*", enc: "*", keyed: keyedBy(q.url, q.header)}
		q.header.Set("If-None-Match", c.etag())
		q.plain = false
	case n < 15:
		q.header.Set("Cache-Control", "only-if-cached")
		q.plain, q.cached = false, true
	case n < 17:
		q.header.Set("Cache-Control", a.one("no-cache", "no-store", "max-age=0"))
		q.plain = false
	case n < 18:
		q.header.Set("Authorization", "x")
		q.plain = false
	case n < 20:
		a.leaveLater(cancel)
	case n < 22:
		rate = (40 + a.rng.IntN(200)) << 10
	}
	a.m.note(q.url, "%v begins", q)
	if q.method == http.MethodHead {
		defer a.m.truth.touched(a.m, "HEAD", q.url)()
	}
	if a.rng.IntN(3) == 0 && rate == 0 && a.m.hit(q) {
		return
	}
	a.m.serve(ctx, q, rate)
}

// leaveLater makes the client go away at some time.
func (a *actor) leaveLater(cancel func()) {
	time.AfterFunc(grid(a.rng.IntN(100)), cancel)
}

// hit asks the hit path, with a buffer that is used again right after the answer. False means that it left the request to the ordinary path.
func (m *model) hit(q *request) bool {
	r := &resources[q.url]
	var buf []byte
	put := func(s string) []byte {
		start := len(buf)
		buf = append(buf, s...)
		return buf[start:len(buf):len(buf)]
	}
	buf = make([]byte, 0, 1<<10)
	in := cache.HitRequest{Method: q.method, Target: put(r.path), Host: put(r.host), At: time.Now(), Remote: "192.0.2.1:1"}
	for _, name := range slices.Sorted(maps.Keys(q.header)) {
		if name == "Range" {
			return false
		}
		in.Fields = append(in.Fields, cache.HitField{Name: put(name), Value: put(q.header.Get(name))})
	}
	q.fast = true
	defer func() { q.fast = false }()
	var out cache.HitAnswer
	if !q.house.c.Hit(&in, &out) {
		return false
	}
	parsed, err := parseAnswer(q.method, out.Head, out.Body)
	q.house.c.HitSent(&out, int64(len(out.Body)), true)
	if err != nil {
		m.fail(q.url, "%v: %v\n%q", q, err, out.Head)
		return true
	}
	clear(buf)
	m.checkAnswer(q, &parsed)
	return true
}

// serve asks the ordinary path; a client with a rate takes so many bytes a second.
func (m *model) serve(ctx context.Context, q *request, rate int) {
	w := httptest.NewRecorder()
	var out http.ResponseWriter = w
	if rate > 0 {
		out = modelWriter{pacedWriter{ResponseRecorder: w, rate: rate}, q.house}
	}
	whole := m.handle(ctx, q, out, nil)
	switch {
	case ctx.Err() != nil:
		m.note(q.url, "%v: the client left", q)
		return
	case !whole:
		m.note(q.url, "%v: cut", q)
		if resources[q.url].steady && !q.house.shut.Load() {
			m.fail(q.url, "%v: cut after %d bytes, the origin answers well", q, w.Body.Len())
		}
		return
	}
	ans, err := answerOf(q.method, w)
	if err != nil {
		m.fail(q.url, "%v: %v", q, err)
		return
	}
	m.checkAnswer(q, &ans)
}

// modelWriter is a client that takes its time, but not where net/http/httputil holds a lock meanwhile, which would stop the clock of the bubble: in a
// pass, as by a cache that is closed.
type modelWriter struct {
	pacedWriter
	house *house
}

func (w modelWriter) Write(b []byte) (int, error) {
	if w.house.shut.Load() {
		return w.ResponseRecorder.Write(b)
	}
	return w.pacedWriter.Write(b)
}

// handle sends a request; false means that the answer was broken off.
func (m *model) handle(ctx context.Context, q *request, w http.ResponseWriter, body io.Reader) (whole bool) {
	ctx = context.WithValue(ctx, http.ServerContextKey, &http.Server{}) // so that a pass breaks off as behind a server
	req := httptest.NewRequestWithContext(ctx, q.method, resources[q.url].url(), body)
	maps.Copy(req.Header, q.header)
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		}
	}()
	q.house.front.ServeHTTP(w, req)
	return true
}

// unsafe changes a URL, and what its answer says beside it.
func (a *actor) unsafe() {
	u := a.url()
	if resources[u].steady {
		u = postURL
	}
	q := a.ask(u, a.one(http.MethodPost, http.MethodPost, http.MethodPut, http.MethodDelete))
	a.choose(q)
	reached := []int{u}
	if a.rng.IntN(3) == 0 {
		to := a.rng.IntN(numURLs)
		if resources[to].host == resources[u].host {
			q.header.Set("X-Location", fmt.Sprint(to))
			reached = append(reached, to)
		}
	}
	if a.rng.IntN(4) == 0 {
		q.header.Set("X-Group", fmt.Sprint("g", a.rng.IntN(2)))
		reached = append(reached, inGroup(resources[u].host, q.header.Get("X-Group"))...)
	}
	if q.method == http.MethodPost && a.rng.IntN(3) > 0 {
		q.header.Set("X-Keep", "yes")
	}
	defer a.m.truth.touched(a.m, q.method, reached...)()
	a.m.note(u, "%v begins, reaches %v", q, reached)
	a.m.change(q, reached)
}

// change sends an unsafe request and notes what it invalidated. The versions that are over are told by the origin's answer to it.
func (m *model) change(q *request, known []int) {
	w := httptest.NewRecorder()
	ok := m.handle(context.Background(), q, w, strings.NewReader("x"))
	if !ok || w.Code != http.StatusOK || q.house.shut.Load() {
		return
	}
	ans, err := answerOf(q.method, w)
	if err != nil {
		m.fail(q.url, "%v: %v", q, err)
		return
	}
	m.noteAll(known, "%v answered %d", q, ans.status)
	made := m.origin.made(ans.header.Get("X-Exchange"))
	m.truth.add(ban{versions: pick(made, known)})
}

func pick(versions map[int]int, urls []int) map[int]int {
	out := map[int]int{}
	for _, u := range urls {
		if v, ok := versions[u]; ok {
			out[u] = v
		}
	}
	return out
}

// meet lets two writers and a purge meet at one URL: something is stored there and stale; one asks the origin about it for a while; meanwhile another
// stores something, and there may be purges, a change of Vary or an eviction. Then come readers.
func (a *actor) meet() {
	m, u := a.m, a.rng.IntN(numURLs)
	if resources[u].steady {
		u = plainURL
	}
	fields := a.ask(u, http.MethodGet)
	a.choose(fields)
	wait := a.rng.IntN(60)
	get := func(wait int, control string) {
		a.get(u, fields.header, wait, control)
	}
	get(0, a.one("max-age=1", "max-age=1", "max-age=1, stale-while-revalidate=30"))
	time.Sleep(grid(100 + a.rng.IntN(30)))
	a.align()
	var wg sync.WaitGroup
	slow, other := a.fork(), a.fork()
	wg.Go(func() { slow.slowly(u, fields.header, wait) })
	wg.Go(func() { other.inBetween(u, wait) })
	if a.rng.IntN(3) > 0 {
		time.Sleep(grid(a.rng.IntN(wait + 1)))
		if a.rng.IntN(2) == 0 {
			a.raiseOf(u)
		}
		get(0, a.one("max-age=60", "max-age=600", "max-age=30, stale-while-revalidate=600"))
		get(0, "max-age=60")
	}
	wg.Wait()
	a.align()
	get(0, "max-age=60")
	q := a.ask(u, http.MethodGet)
	maps.Copy(q.header, fields.header)
	q.plain = true
	m.hit(q)
}

func (a *actor) fork() *actor {
	return &actor{m: a.m, rng: rand.New(rand.NewPCG(a.rng.Uint64(), 0))}
}

// get reads with these fields; if the origin is asked it answers like this.
func (a *actor) get(u int, fields http.Header, wait int, control string) {
	q := a.ask(u, http.MethodGet)
	maps.Copy(q.header, fields)
	q.header.Set("X-Wait", fmt.Sprint(wait))
	q.header.Set("X-Control", control)
	q.plain = true
	a.m.note(u, "%v begins", q)
	a.m.serve(context.Background(), q, 0)
}

// slowly asks the origin about a URL in one of the ways that may change what is stored.
func (a *actor) slowly(u int, fields http.Header, wait int) {
	q := a.ask(u, http.MethodGet)
	maps.Copy(q.header, fields)
	q.header.Set("X-Wait", fmt.Sprint(wait))
	q.header.Set("X-Control", a.one("max-age=60", "max-age=60", "max-age=600", "max-age=0"))
	switch a.rng.IntN(5) {
	case 0, 1:
		q.method = http.MethodHead
		defer a.m.truth.touched(a.m, "HEAD", u)()
	case 2:
		q.method = http.MethodPost
		q.header.Set("X-Keep", "yes")
		defer a.m.truth.touched(a.m, q.method, u)()
		a.m.note(u, "%v begins", q)
		a.m.change(q, []int{u})
		return
	case 3:
		q.header.Set("Cache-Control", "no-cache")
	default:
		q.header.Set("Authorization", "x")
	}
	a.m.note(u, "%v begins", q)
	a.m.serve(context.Background(), q, 0)
}

// inBetween does what may go wrong beside a writer, often in the instant in which that ends.
func (a *actor) inBetween(u, wait int) {
	if a.rng.IntN(3) > 0 {
		wait = a.rng.IntN(wait + 1)
	}
	time.Sleep(max(0, grid(wait-1)))
	switch n := a.rng.IntN(12); {
	case n < 3:
	case n < 4 && a.m.profile.varies:
		a.varyOf(u)
	case n < 5 && a.m.profile.evicts:
		a.evict()
	case n < 8:
		var wg sync.WaitGroup
		for _, soft := range []bool{true, false} {
			b := a.fork()
			wg.Go(func() { b.purgeOf(u, cache.PurgeOptions{Soft: soft}) })
		}
		wg.Wait()
	default:
		a.purgeOf(u, cache.PurgeOptions{Soft: a.rng.IntN(2) == 0, NoWait: a.rng.IntN(3) == 0})
	}
}

// raise makes a new version of a URL at the origin; nobody is told.
func (a *actor) raise() { a.raiseOf(a.url()) }

func (a *actor) raiseOf(u int) {
	time.Sleep(half)
	v := a.m.origin.raise([]int{u})
	a.m.note(u, "origin: version %d", v[u])
	time.Sleep(half)
}

func (a *actor) vary() {
	u := varyURL
	if a.rng.IntN(2) == 0 {
		u = a.url()
	}
	a.varyOf(u)
}

func (a *actor) varyOf(u int) {
	spec := varySpecs[a.rng.IntN(len(varySpecs))]
	time.Sleep(half)
	a.m.origin.change(u, spec)
	a.m.note(u, "origin: varies on %v", spec)
	time.Sleep(half)
}

// evict takes a record away as a store may at any time.
func (a *actor) evict() {
	m := a.m
	h := m.house.Load()
	s := h.store.inner()
	over := m.truth.touched(m, "eviction", allURLs...)
	defer over()
	skip := a.rng.IntN(20)
	var last *cache.Record
	s.(cache.Walker).Walk(func(r *cache.Record) bool {
		last = r
		skip--
		return skip >= 0
	})
	if last != nil {
		m.noteAll(allURLs, "evict %q, token %d", last.Key, last.Token)
		s.Delete(last.Key, last.Token)
	}
}

// drawSelector is a selector, the URLs it reaches, and the tags if it goes by those.
func drawSelector(rng *rand.Rand, u int) (sel cache.Selector, urls []int, byTags []string) {
	r := &resources[u]
	switch rng.IntN(10) {
	default:
		sel.URL, urls = r.url(), []int{u}
	case 1:
		byTags = append(tags(u, rng.IntN(2))[rng.IntN(2):], "w0", "unused")[:1+rng.IntN(3)]
		sel.Tags, urls = byTags, allURLs
	case 2:
		sel.Prefix = "http://" + r.host + r.path[:3]
		urls = urlsWith(func(x *resource) bool { return strings.HasPrefix(x.url(), sel.Prefix) })
	case 3:
		sel.Glob = "http://*.test" + r.path[:3] + "*" + r.path[len(r.path)-2:]
		urls = urlsWith(func(x *resource) bool {
			return strings.HasPrefix(x.path, r.path[:3]) && strings.HasSuffix(x.path, r.path[len(r.path)-2:])
		})
	case 4:
		sel.Host = r.host
		urls = urlsWith(func(x *resource) bool { return x.host == r.host })
	case 5:
		sel.All, urls = true, allURLs
	}
	return sel, urls, byTags
}

func urlsWith(f func(*resource) bool) (urls []int) {
	for u := range resources {
		if f(&resources[u]) {
			urls = append(urls, u)
		}
	}
	return urls
}

// purge raises the versions of what it reaches, and then purges.
func (a *actor) purge() {
	a.purgeOf(a.url(), cache.PurgeOptions{Soft: a.rng.IntN(5) < 2, DryRun: a.rng.IntN(12) == 0, NoWait: a.rng.IntN(3) == 0})
}

func (a *actor) purgeOf(u int, opt cache.PurgeOptions) {
	sel, urls, byTags := drawSelector(a.rng, u)
	b := ban{tags: byTags, soft: opt.Soft}
	if !opt.DryRun {
		time.Sleep(half)
		b.versions = a.m.origin.raise(urls)
		time.Sleep(half)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if a.rng.IntN(10) == 0 {
		a.leaveLater(cancel)
	}
	a.m.purge(ctx, sel, opt, b, urls)
}

func (m *model) purge(ctx context.Context, sel cache.Selector, opt cache.PurgeOptions, b ban, urls []int) {
	h := m.house.Load()
	if !opt.DryRun {
		defer m.truth.touched(m, "purge", urls...)()
	}
	m.noteAll(urls, "purge %+v %+v begins: %v are over", sel, opt, b.versions)
	_, err := h.c.Purge(ctx, sel, opt)
	m.noteAll(urls, "purge %+v returned: %v", sel, err)
	switch {
	case h.shut.Load() || opt.DryRun || errors.Is(err, cache.ErrClosed):
		return
	case err != nil && !errors.Is(err, context.Canceled):
		m.fail(urls[0], "purge %+v: %v", sel, err)
		return
	}
	b.weak = err != nil
	m.truth.add(b)
}

func (a *actor) refresh() {
	q := a.ask(a.url(), http.MethodGet)
	a.choose(q)
	m := a.m
	if m.profile.front == "handler" || m.profile.front == "transport" && resources[q.url].steady {
		return
	}
	req := httptest.NewRequest(http.MethodGet, resources[q.url].url(), nil)
	maps.Copy(req.Header, q.header)
	m.note(q.url, "refresh %v begins", q)
	err := q.house.c.Refresh(context.Background(), req)
	m.note(q.url, "refresh %v returned: %v", q, err)
	if err != nil || q.house.shut.Load() || resources[q.url].steady { // too large to be stored: nobody reads it to its end
		return
	}
	good := slices.ContainsFunc(m.origin.since(q.url, q.began), func(x exchange) bool { return x.answered > 0 && x.good })
	if !good {
		m.fail(q.url, "refresh %v returned without an error, no answer has come since it began", q)
	}
}

func (a *actor) explain() {
	q := a.ask(a.url(), http.MethodGet)
	a.choose(q)
	x, ok := a.m.explain(q)
	if ok {
		a.m.note(q.url, "explain %v: stored %t, %s, token %d", q, x.Stored, x.Fields.Get("Etag"), x.Token)
		a.m.checkExplained(q, &x)
	}
}

func (m *model) explain(q *request) (cache.Explanation, bool) {
	req := httptest.NewRequest(http.MethodGet, resources[q.url].url(), nil)
	maps.Copy(req.Header, q.header)
	x, err := q.house.c.Explain(req)
	if err != nil {
		m.fail(q.url, "explain %v: %v", q, err)
		return x, false
	}
	return x, !q.house.shut.Load()
}

// send gives a response to a client, trailers included.
func send(w http.ResponseWriter, resp *http.Response) {
	defer resp.Body.Close()
	h := w.Header()
	maps.Copy(h, resp.Header)
	for name := range resp.Trailer {
		h.Add("Trailer", name)
	}
	w.WriteHeader(resp.StatusCode)
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, gone := w.Write(buf[:n]); gone != nil {
				return
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	maps.Copy(h, resp.Trailer)
}
