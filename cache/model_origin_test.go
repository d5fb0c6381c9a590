package cache_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The URLs of the model. Few, so that writers meet.
const (
	plainURL = iota
	varyURL
	largeURL
	trailerURL
	partURL
	overURL // larger than what is stored
	postURL
	keyedURL // under a rule whose keys have a request field
	numURLs
)

// resource is one URL of the model's origin.
type resource struct {
	host, path string // path with query
	size       int
	chunked    bool // without length, with a trailer
	ranges     bool
	steady     bool // never fails and never takes long
}

var resources = [numURLs]resource{
	plainURL:   {host: "a.test", path: "/p/plain", size: 300},
	varyURL:    {host: "a.test", path: "/p/vary", size: 300},
	largeURL:   {host: "a.test", path: "/q/large?x=1", size: 80 << 10},
	trailerURL: {host: "b.test", path: "/p/trailer", size: 2000, chunked: true},
	partURL:    {host: "b.test", path: "/q/part", size: 400, ranges: true},
	overURL:    {host: "b.test", path: "/q/over", size: 2500 << 10, steady: true},
	postURL:    {host: "a.test", path: "/q/post", size: 300},
	keyedURL:   {host: "b.test", path: "/k/keyed", size: 300},
}

const modelObjectMax = 100 << 10

func (r *resource) url() string { return "http://" + r.host + r.path }

func resourceOf(host, path string) int {
	return slices.IndexFunc(resources[:], func(r resource) bool { return r.host == host && r.path == path })
}

// content names what a body says: which version of which URL, for which values of the request fields that it was chosen by; "*" stands for
// fields that did not matter.
type content struct {
	url, version         int
	language, enc, keyed string
}

func (c content) etag() string {
	return fmt.Sprintf(`"%d.%d.%s.%s.%s"`, c.url, c.version, orDash(c.language), orDash(c.enc), orDash(c.keyed))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// contentOf reads an entity tag.
func contentOf(etag string) (c content, ok bool) {
	parts := strings.Split(strings.Trim(etag, `"`), ".")
	if len(parts) != 5 {
		return c, false
	}
	var err [2]error
	c.url, err[0] = strconv.Atoi(parts[0])
	c.version, err[1] = strconv.Atoi(parts[1])
	c.language, c.enc, c.keyed = undash(parts[2]), undash(parts[3]), undash(parts[4])
	return c, errors.Join(err[:]...) == nil && c.url >= 0 && c.url < numURLs
}

func undash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// suits tells whether the content is for a request with these fields.
func (c content) suits(h http.Header) bool {
	return (c.language == "*" || c.language == h.Get("Accept-Language")) && (c.enc == "*" || c.enc == h.Get("Accept-Encoding")) &&
		c.keyed == keyedBy(c.url, h)
}

func keyedBy(url int, h http.Header) string {
	if url != keyedURL {
		return ""
	}
	return h.Get("X-Key")
}

// tags are the surrogate keys of a version. They change with it.
func tags(url, version int) []string {
	return []string{fmt.Sprint("t", url%3), fmt.Sprint("w", (url+version)%2)}
}

func groupOf(url int) string { return fmt.Sprint("g", url%2) }

var (
	bodyMu sync.Mutex // guards bodies
	bodies = map[content]string{}
)

// body is the whole of a content.
func (c content) body() string {
	bodyMu.Lock()
	defer bodyMu.Unlock()
	if b, ok := bodies[c]; ok {
		return b
	}
	line := c.etag() + "\n"
	size := resources[c.url].size
	b := strings.Repeat(line, size/len(line)+1)[:size]
	if len(bodies) > 500 {
		clear(bodies)
	}
	bodies[c] = b
	return b
}

// exchange is one request that reached the origin, and what became of it.
type exchange struct {
	id      int
	url     int
	method  string
	began   uint64 // tick
	content content
	vary    []string
	// answered is the tick at which the whole answer had been given out, 0 before; good: it was no failure.
	answered uint64
	good     bool
	// made are the versions that an unsafe request made.
	made map[int]int
	// odd: what it says may take a stored response away or change what that varies on.
	odd bool
}

// modelOrigin is the origin of the model. Its content changes only halfway between the instants at which requests come, so that of two fills the
// one with the higher token has the later content. Safe for concurrent use.
type modelOrigin struct {
	m *model

	mu        sync.Mutex // guards following
	rng       *rand.Rand
	versions  [numURLs]int
	vary      [numURLs][]string
	exchanges []*exchange
	snapshots map[context.Context]snapshot
	calm      bool // no failures, no long waits
}

// snapshot is the state of a URL when a fill first asked: one that asks again gets the same.
type snapshot struct {
	version int
	vary    []string
}

func newModelOrigin(m *model, rng *rand.Rand) *modelOrigin {
	o := &modelOrigin{m: m, rng: rng, snapshots: map[context.Context]snapshot{}}
	for u := range o.versions {
		o.versions[u] = 1
	}
	return o
}

// raise makes new versions of the URLs, and returns them.
func (o *modelOrigin) raise(urls []int) map[int]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make(map[int]int, len(urls))
	for _, u := range urls {
		o.versions[u]++
		out[u] = o.versions[u]
	}
	return out
}

func (o *modelOrigin) version(u int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.versions[u]
}

var varySpecs = [][]string{nil, nil, {"Accept-Language"}, {"Accept-Encoding"}, {"Accept-Encoding", "Accept-Language"}}

// change makes the URL's answers vary on other fields from now on.
func (o *modelOrigin) change(u int, spec []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.vary[u] = spec
}

func (o *modelOrigin) calmDown(calm bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calm = calm
}

// plan is how an exchange goes, drawn when it begins.
type plan struct {
	wait     time.Duration // until the head
	pause    time.Duration // in the middle of the body
	control  string
	status   int
	hang     bool // says nothing for many tenures
	refuse   bool // no response
	cut      bool // the body breaks off
	plain    bool // no 304, no 206, a length
	noLength bool // of the answer to a HEAD
}

func (o *modelOrigin) draw(u int, r *http.Request) plan {
	rng, method := o.rng, r.Method
	p := plan{status: http.StatusOK, wait: quick, control: drawControl(rng), plain: rng.IntN(5) == 0, noLength: rng.IntN(2) == 0}
	if o.calm {
		p.control = "max-age=60"
		return p
	}
	if wait, err := strconv.Atoi(r.Header.Get("X-Wait")); err == nil { // the request says how
		p.wait, p.control = max(quick, grid(wait)), r.Header.Get("X-Control")
		return p
	}
	switch n := rng.IntN(20); {
	case n < 6:
	case n < 16:
		p.wait = grid(o.m.profile.beat * (1 + rng.IntN(100/o.m.profile.beat)))
	case n < 19 || resources[u].steady:
		p.wait = grid(100 + rng.IntN(100))
	default:
		p.wait = modelTenure + grid(rng.IntN(200))
	}
	if rng.IntN(6) == 0 {
		p.pause = grid(1 + rng.IntN(200))
	}
	passed := r.Header.Get("Cache-Control") == "no-store" // nobody but the client limits what is passed on
	if resources[u].steady || method != http.MethodGet || passed {
		return p
	}
	if o.m.profile.concurrency > 0 && rng.IntN(8) == 0 {
		p.hang = true
		return p
	}
	switch rng.IntN(40) {
	case 0:
		p.hang = true
	case 1:
		p.refuse = true
	case 2:
		p.cut = true
	case 3:
		p.status = http.StatusServiceUnavailable
	case 4:
		p.status = http.StatusNotFound
	}
	return p
}

func drawControl(rng *rand.Rand) string {
	controls := []string{
		"max-age=60, stale-while-revalidate=60, stale-if-error=60", "max-age=600", "max-age=30, stale-while-revalidate=600",
		"max-age=1, stale-while-revalidate=30", "max-age=1, stale-while-revalidate=30", "max-age=2", "max-age=1, stale-if-error=60",
		"max-age=0", "no-cache",
	}
	switch rng.IntN(40) {
	case 0:
		return "no-store"
	case 1:
		return "private"
	}
	return controls[rng.IntN(len(controls))]
}

// RoundTrip answers as the plan says.
func (o *modelOrigin) RoundTrip(r *http.Request) (*http.Response, error) {
	u := resourceOf(r.URL.Host, r.URL.RequestURI())
	if u < 0 {
		return nil, fmt.Errorf("no such URL: %s", r.URL)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return o.unsafe(u, r)
	}
	x, p := o.begin(u, r)
	o.m.note(u, "origin: %s %d begins, %v", x.method, x.id, x.content.etag())
	resp, err := o.answer(x, p, r)
	if err != nil {
		o.end(x, false)
		o.m.note(u, "origin: %s %d failed: %v", x.method, x.id, err)
		return nil, err
	}
	o.m.note(u, "origin: %s %d answers %d %s %s vary %v", x.method, x.id, resp.StatusCode, x.content.etag(), resp.Header.Get("Cache-Control"), x.vary)
	if r.Method == http.MethodHead || resp.ContentLength == 0 {
		o.end(x, resp.StatusCode < 500)
	}
	return resp, nil
}

func (o *modelOrigin) begin(u int, r *http.Request) (*exchange, plan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, again := o.snapshots[r.Context()]
	if !again {
		s = snapshot{o.versions[u], o.vary[u]}
		o.snapshots[r.Context()] = s
	}
	p := o.draw(u, r)
	if again {
		p.wait = quick
	}
	x := o.enterLocked(u, r, s)
	x.odd = p.control == "no-store" || p.control == "private" || p.status == http.StatusNotFound
	return x, p
}

func (o *modelOrigin) enterLocked(u int, r *http.Request, s snapshot) *exchange {
	x := &exchange{
		id: len(o.exchanges), url: u, method: r.Method, began: o.m.tick(), vary: s.vary,
		content: content{url: u, version: s.version, language: "*", enc: "*", keyed: keyedBy(u, r.Header)},
	}
	if slices.Contains(s.vary, "Accept-Language") {
		x.content.language = r.Header.Get("Accept-Language")
	}
	if slices.Contains(s.vary, "Accept-Encoding") {
		x.content.enc = r.Header.Get("Accept-Encoding")
	}
	o.exchanges = append(o.exchanges, x)
	return x
}

func (o *modelOrigin) end(x *exchange, good bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	x.answered, x.good = o.m.tick(), good
}

// get returns a copy of an exchange.
func (o *modelOrigin) get(id int) (exchange, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if id < 0 || id >= len(o.exchanges) {
		return exchange{}, false
	}
	return *o.exchanges[id], true
}

// made are the versions that an exchange made, by URL.
func (o *modelOrigin) made(id string) map[int]int {
	n, err := strconv.Atoi(id)
	x, ok := o.get(n)
	if err != nil || !ok {
		return nil
	}
	return x.made
}

// since returns copies of the exchanges of a URL that began after a tick.
func (o *modelOrigin) since(u int, after uint64) (list []exchange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range slices.Backward(o.exchanges) {
		if x.began <= after {
			break
		}
		if x.url == u {
			list = append(list, *x)
		}
	}
	return list
}

var errModelRefused = errors.New("origin refused")

func (o *modelOrigin) answer(x *exchange, p plan, r *http.Request) (*http.Response, error) {
	if p.hang {
		if err := sleep(r.Context(), 20*modelTenure); err != nil {
			return nil, err
		}
		if !o.m.anyShut.Load() { // else a closed cache may have passed it on, without a limit
			o.m.fail(x.url, "GET %d was waited for for 20 tenures: %v", x.id, r.Header)
		}
		return nil, errModelRefused
	}
	if err := sleep(r.Context(), p.wait); err != nil {
		return nil, err
	}
	if p.refuse {
		return nil, errModelRefused
	}
	resp := response(p.status, "", o.fields(x, p)...)
	switch {
	case p.status == http.StatusServiceUnavailable:
		delete(resp.Header, "Etag")
		resp.Header.Set("Cache-Control", "no-store")
		o.setBody(resp, x, p, "down", r)
		return resp, nil
	case r.Method == http.MethodHead:
		if p.noLength {
			resp.ContentLength = -1
		} else {
			resp.Header.Set("Content-Length", strconv.Itoa(resources[x.url].size))
		}
		return resp, nil
	case p.status == http.StatusOK && !p.plain && slices.Contains(r.Header["If-None-Match"], x.content.etag()):
		resp.StatusCode = http.StatusNotModified
		return resp, nil
	}
	body := x.content.body()
	if p.status == http.StatusOK && resources[x.url].ranges && !p.plain {
		body = o.part(resp, r, x, body)
	}
	o.setBody(resp, x, p, body, r)
	return resp, nil
}

func (o *modelOrigin) fields(x *exchange, p plan) []string {
	fields := []string{
		"Etag: " + x.content.etag(), "Cache-Control: " + p.control, "Content-Type: text/plain", fmt.Sprint("X-Exchange: ", x.id),
		"Surrogate-Key: " + strings.Join(tags(x.url, x.content.version), " "), fmt.Sprintf("Cache-Groups: %q", groupOf(x.url)),
	}
	if x.vary != nil {
		fields = append(fields, "Vary: "+strings.Join(x.vary, ", "))
	}
	return fields
}

// part cuts a body to the range that is asked for, if there is one of the first form: RFC 9110 §14.2.
func (o *modelOrigin) part(resp *http.Response, r *http.Request, x *exchange, body string) string {
	var first, last int
	if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); n == 1 {
		last = len(body) - 1
	} else if n != 2 {
		return body
	}
	last = min(last, len(body)-1)
	if tag := r.Header.Get("If-Range"); tag != "" && tag != x.content.etag() || first > last {
		return body
	}
	resp.StatusCode = http.StatusPartialContent
	resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(body)))
	return body[first : last+1]
}

func (o *modelOrigin) setBody(resp *http.Response, x *exchange, p plan, body string, r *http.Request) {
	resp.ContentLength = int64(len(body))
	b := &modelBody{o: o, x: x, good: resp.StatusCode < 500, rest: []byte(body), ctx: r.Context()}
	if resources[x.url].chunked && resp.StatusCode == http.StatusOK {
		resp.ContentLength = -1
		resp.Trailer = http.Header{"X-Sum": nil, "X-Late": nil}
		b.trailer, b.sum = resp.Trailer, x.content.etag()
	} else if x.url == overURL && !p.plain {
		resp.ContentLength = -1 // how large it is shows late
	} else if resp.StatusCode != http.StatusPartialContent {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	switch {
	case p.cut:
		b.rest, b.end = b.rest[:len(b.rest)/2], io.ErrUnexpectedEOF
	case p.pause > 0:
		b.stop, b.pause = len(b.rest)/2, p.pause
	}
	resp.Body = b
	if p.pause == 0 && !p.cut && !resources[x.url].chunked {
		resp.Body = wholeModelBody{b}
	}
}

// wholeModelBody can be read without waiting.
type wholeModelBody struct{ *modelBody }

// modelBody is a body on its way. As with net/http, the trailer is filled in by whoever reads the end.
type modelBody struct {
	o       *modelOrigin
	x       *exchange
	ctx     context.Context
	good    bool
	rest    []byte
	stop    int // pause when so much is left
	pause   time.Duration
	end     error
	trailer http.Header
	sum     string
	over    bool
}

// Read reads at most 64 KiB.
func (b *modelBody) Read(p []byte) (int, error) {
	if b.pause > 0 && len(b.rest) <= b.stop {
		pause := b.pause
		b.pause = 0
		if err := sleep(b.ctx, pause); err != nil {
			return 0, err
		}
	}
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	if len(b.rest) == 0 {
		return 0, b.ended()
	}
	n := copy(p, b.rest[:min(len(b.rest), 64<<10)])
	b.rest = b.rest[n:]
	return n, nil
}

func (b *modelBody) ended() error {
	if b.end == nil {
		b.end = io.EOF
	}
	if !b.over {
		b.over = true
		if b.trailer != nil && b.end == io.EOF {
			b.trailer["X-Sum"], b.trailer["X-Late"] = []string{b.sum}, []string{"yes"}
		}
		b.o.end(b.x, b.good && b.end == io.EOF)
	}
	return b.end
}

func (b *modelBody) Close() error { return nil }

// unsafe is an unsafe request: it makes a new version of its target and of what its answer says has changed, in the middle of its time.
func (o *modelOrigin) unsafe(u int, r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	if err := sleep(r.Context(), half); err != nil {
		return nil, err
	}
	changed := []int{u}
	fields := []string{}
	if to, err := strconv.Atoi(r.Header.Get("X-Location")); err == nil {
		changed = append(changed, to)
		fields = append(fields, "Location: "+resources[to].path)
	}
	group := r.Header.Get("X-Group")
	if group != "" {
		fields = append(fields, fmt.Sprintf("Cache-Group-Invalidation: %q", group))
		changed = append(changed, inGroup(resources[u].host, group)...)
	}
	made := o.raise(slices.Compact(changed))
	o.mu.Lock()
	x := o.enterLocked(u, r, snapshot{made[u], o.vary[u]})
	x.made = made
	wait := quick + half
	if n, err := strconv.Atoi(r.Header.Get("X-Wait")); err == nil {
		wait += grid(n)
	} else if o.rng.IntN(2) == 0 && !o.calm {
		wait += grid(o.rng.IntN(200))
	}
	control, pause := "max-age=60", time.Duration(0)
	if o.rng.IntN(3) == 0 && !o.calm {
		pause = grid(1 + o.rng.IntN(200))
	}
	o.mu.Unlock()
	o.m.note(u, "origin: %s %d makes version %d", r.Method, x.id, x.content.version)
	if err := sleep(r.Context(), wait); err != nil {
		return nil, err
	}
	p := plan{control: control, pause: pause}
	resp := response(http.StatusOK, "", append(o.fields(x, p), fields...)...)
	if r.Header.Get("X-Keep") != "" {
		resp.Header.Set("Content-Location", resources[u].path)
	}
	o.setBody(resp, x, p, x.content.body(), r)
	return resp, nil
}

// inGroup are the URLs of a cache group of one host.
func inGroup(host, group string) (urls []int) {
	for u := range resources {
		if resources[u].host == host && groupOf(u) == group {
			urls = append(urls, u)
		}
	}
	return urls
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// brief is the origin for fills that begin on their reader's goroutine.
type briefOrigin struct{ *modelOrigin }

// RoundTripWithin answers at once if all of the answer is there within patience.
func (o briefOrigin) RoundTripWithin(req *http.Request, patience time.Duration) (*http.Response, func(context.Context) (*http.Response, error), error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(req.Context()))
	done := make(chan exchanged, 1)
	go func() {
		resp, err := o.RoundTrip(req.WithContext(ctx))
		done <- exchanged{resp, err}
	}()
	rest := func(ctx context.Context) (*http.Response, error) {
		context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		x := <-done
		return x.resp, x.err
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case x := <-done:
		if x.err == nil {
			if _, whole := x.resp.Body.(wholeModelBody); whole {
				return x.resp, nil, nil
			}
		}
		done <- x
	case <-t.C:
	}
	return nil, rest, nil
}

// ServeHTTP is the origin as a handler.
func (o *modelOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host = "http", r.Host
	resp, err := o.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	send(w, resp)
}
