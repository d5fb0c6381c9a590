package integration

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Promise: no answer is older than a purge that was answered before the request was sent, however requests, purges and fetches meet.

const (
	stormLength  = 4 * time.Second
	stormReaders = 16
	// stormDelay is the longest that the origin takes between reading a page's version and answering with it.
	stormDelay = 30 * time.Millisecond
	// stormPause is the longest rest of a writer between two purges, so that there are hits too.
	stormPause = 40 * time.Millisecond
)

// SWRPROXY_STORM is another length, such as 60s.
func stormFor(t *testing.T) time.Duration {
	d, err := time.ParseDuration(cmp.Or(os.Getenv("SWRPROXY_STORM"), stormLength.String()))
	if err != nil {
		t.Fatalf("SWRPROXY_STORM: %v", err)
	}
	return d
}

func TestPurgeStorm(t *testing.T) {
	t.Parallel()
	for name, disk := range map[string]bool{"memory": false, "disk": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStorm(t)
			c := conf{Origin: s.origin.URL, Rules: "  - { origin: app, semantics: { store_post: true } }"}
			if disk {
				c.Extra = "disk: { path: '" + t.TempDir() + "/store', max: 256MiB }\n"
			}
			p := start(t, c)
			s.rage(p, stormFor(t))
			s.wantNewest(p, "after the storm")
			if disk {
				p.mayFail = true
				p.Kill()
				s.wantNewest(start(t, c), "after a kill -9")
			}
			s.report()
		})
	}
}

// stormPage is one URL. Safe for concurrent use.
type stormPage struct {
	path, tag string
	control   string // Cache-Control
	size      int
	// trailers are sent behind chunks; varied pages differ by Accept-Language.
	trailers, varied bool
	// now is the version at the origin, promised the highest that was announced by a purge that has been answered.
	now, promised atomic.Int64
}

// promise says that from now on nothing older may be answered.
func (pg *stormPage) promise(v int64) {
	for had := pg.promised.Load(); had < v && !pg.promised.CompareAndSwap(had, v); had = pg.promised.Load() {
	}
}

// stormGroups and the kinds below make the pages: few, so that all meet on them.
const stormGroups = 3

var stormKinds = []stormPage{
	{path: "fresh", control: "max-age=600"},
	{path: "stale", control: "max-age=0, stale-while-revalidate=600"},
	{path: "validated", control: "no-cache"},
	{path: "trailers", control: "max-age=600", trailers: true},
	{path: "stale-trailers", control: "max-age=0, stale-while-revalidate=600", trailers: true},
	{path: "varied", control: "max-age=600", varied: true},
	{path: "large", control: "max-age=600", size: 100 << 10},
	{path: "large-validated", control: "no-cache", size: 100 << 10},
}

// storm is the origin, the pages and what was seen. Safe for concurrent use.
type storm struct {
	t      *testing.T
	origin *httptest.Server
	pages  []*stormPage
	byPath map[string]*stormPage

	mu sync.Mutex // guards following
	// wrong are the first complaints of each kind, counts how many of what there were.
	wrong  map[string][]string
	counts map[string]int
}

func newStorm(t *testing.T) *storm {
	s := &storm{t: t, byPath: make(map[string]*stormPage), wrong: make(map[string][]string), counts: make(map[string]int)}
	for g := range stormGroups {
		for i := range stormKinds {
			k := &stormKinds[i]
			pg := &stormPage{
				path: fmt.Sprintf("/g%d/%s", g, k.path), tag: fmt.Sprintf("tag%d", i%stormGroups),
				control: k.control, size: cmp.Or(k.size, 500), trailers: k.trailers, varied: k.varied,
			}
			s.pages = append(s.pages, pg)
			s.byPath[pg.path] = pg
		}
	}
	s.origin = httptest.NewServer(s)
	t.Cleanup(s.origin.Close)
	return s
}

// stormBody is a page's body in one version: as long in each, different in every line.
func (pg *stormPage) body(v int64, lang string) string {
	line := fmt.Sprintf("v%08d of %s in %s\n", v, pg.path, lang)
	return strings.Repeat(line, pg.size/len(line)+1)
}

func stormTag(v int64, lang string) string { return fmt.Sprintf(`"v%d-%s"`, v, lang) }

// ServeHTTP answers with the version of when the request came, some time later. A POST makes a new one.
func (s *storm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pg := s.byPath[r.URL.Path]
	if pg == nil {
		http.NotFound(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	v := pg.now.Load()
	if r.Method == http.MethodPost {
		v = pg.now.Add(1)
		w.Header().Set("Content-Location", r.URL.Path)
	}
	time.Sleep(rand.N(stormDelay))
	pg.answer(w, r, v)
}

func (pg *stormPage) answer(w http.ResponseWriter, r *http.Request, v int64) {
	lang := "any"
	h := w.Header()
	if pg.varied {
		lang = cmp.Or(r.Header.Get("Accept-Language"), lang)
		h.Set("Vary", "Accept-Language")
	}
	setFields(h, []string{"Cache-Control: " + pg.control, "Surrogate-Key: " + pg.tag, "Content-Type: text/plain", fmt.Sprint("X-Version: ", v)})
	h.Set("ETag", stormTag(v, lang))
	switch {
	case pg.trailers && r.Header.Get("If-None-Match") == stormTag(v, lang):
		w.WriteHeader(http.StatusNotModified)
	case pg.trailers:
		h.Set("Trailer", "X-Trailer-Version")
		_, _ = io.WriteString(w, pg.body(v, lang))
		h.Set("X-Trailer-Version", fmt.Sprint(v))
	case r.Method == http.MethodPost:
		_, _ = io.WriteString(w, pg.body(v, lang))
	default:
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(pg.body(v, lang)))
	}
}

// rage lets readers and writers loose for as long.
func (s *storm) rage(p *proxy, d time.Duration) {
	over := time.Now().Add(d)
	going := func() bool {
		select {
		case <-p.Exited():
			return false
		default:
			return time.Now().Before(over)
		}
	}
	var all sync.WaitGroup
	for i := range stormReaders {
		r := &stormReader{storm: s, addr: p.Addr(), chance: rand.New(rand.NewPCG(7, uint64(i))), known: make(map[string]string)}
		all.Go(func() { r.run(going) })
	}
	admin := &http.Client{Timeout: clientLimit}
	for by, purge := range stormPurges {
		all.Go(func() {
			for going() {
				if err := purge(s, p, admin); err != nil {
					s.complain("purge by "+by, "%v", err)
				}
				s.count("purges by "+by, 1)
				time.Sleep(rand.N(stormPause))
			}
		})
	}
	all.Wait()
}

// stormPurges are the ways to announce new versions.
var stormPurges = map[string]func(*storm, *proxy, *http.Client) error{
	"url": func(s *storm, p *proxy, c *http.Client) error {
		pg := s.pages[rand.IntN(len(s.pages))]
		return announce([]*stormPage{pg}, p, c, map[string]any{"url": pageURL(pg.path)})
	},
	"tag": func(s *storm, p *proxy, c *http.Client) error {
		tag := s.pages[rand.IntN(len(s.pages))].tag
		return announce(s.which(func(pg *stormPage) bool { return pg.tag == tag }), p, c, map[string]any{"tags": []string{tag}})
	},
	"prefix": func(s *storm, p *proxy, c *http.Client) error {
		prefix := fmt.Sprintf("/g%d/", rand.IntN(stormGroups))
		return announce(s.which(func(pg *stormPage) bool { return strings.HasPrefix(pg.path, prefix) }), p, c, map[string]any{"prefix": pageURL(prefix)})
	},
	"glob": func(s *storm, p *proxy, c *http.Client) error {
		suffix := stormKinds[rand.IntN(len(stormKinds))].path
		return announce(s.which(func(pg *stormPage) bool { return strings.HasSuffix(pg.path, "/"+suffix) }), p, c, map[string]any{"glob": "http://" + site + "/*/" + suffix})
	},
	"post":         (*storm).post,
	"another post": (*storm).post,
}

func (s *storm) which(keep func(*stormPage) bool) []*stormPage {
	return slices.DeleteFunc(slices.Clone(s.pages), func(pg *stormPage) bool { return !keep(pg) })
}

// announce makes a new version of some pages, purges them, and promises the version when the purge is answered.
func announce(pages []*stormPage, p *proxy, c *http.Client, selection map[string]any) error {
	raised := make([]int64, len(pages))
	for i, pg := range pages {
		raised[i] = pg.now.Add(1)
	}
	text, err := json.Marshal(selection)
	if err != nil {
		return err
	}
	resp, err := c.Post(p.AdminURL()+"/v1/purge", "application/json", strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d, %s, %w", text, resp.StatusCode, answer, err)
	}
	for i, pg := range pages {
		pg.promise(raised[i])
	}
	return nil
}

// post has the origin make a new version: when its answer is there, nothing older may be read (RFC 9111 §4.4).
func (s *storm) post(p *proxy, _ *http.Client) error {
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(clientLimit))
	pg := s.pages[rand.IntN(len(s.pages))]
	if _, err := io.WriteString(c, request("POST", pg.path, "Content-Length: 3")+"new"); err != nil {
		return err
	}
	a, err := readStrict(bufio.NewReader(c), http.MethodPost)
	if err != nil {
		return fmt.Errorf("POST %s: %w", pg.path, err)
	}
	q := stormQuestion{page: pg, method: http.MethodPost, lang: "any"}
	v, err := q.check(&a)
	if err == nil {
		pg.promise(v)
	}
	return err
}

// stormReader is a client with one connection. Not safe for concurrent use.
type stormReader struct {
	*storm
	addr   string
	chance *rand.Rand
	known  map[string]string // the newest entity tags by path and language, for conditional requests
	conn   net.Conn
	br     *bufio.Reader
}

// stormQuestion is a request and what was promised when it was sent.
type stormQuestion struct {
	page         *stormPage
	method, lang string
	condition    string // If-None-Match
	anew         bool   // Cache-Control: no-cache
	from, to     int    // a range, if to is above 0
	promised     int64
}

func (r *stormReader) run(going func() bool) {
	defer r.hangUp()
	for going() {
		// One in eight times two requests travel together.
		questions := make([]stormQuestion, 1+r.chance.IntN(8)/7)
		for i := range questions {
			questions[i] = r.question()
		}
		if err := r.ask(questions); err != nil {
			r.hangUp()
			r.complain("malformed or missing answers", "%v", err)
		}
	}
}

func (r *stormReader) question() stormQuestion {
	q := stormQuestion{page: r.pages[r.chance.IntN(len(r.pages))], method: http.MethodGet, lang: "any"}
	if q.page.varied {
		q.lang = []string{"any", "de", "fr"}[r.chance.IntN(3)]
	}
	q.anew = r.chance.IntN(10) == 0
	switch n := r.chance.IntN(10); {
	case n < 3:
		q.method = http.MethodHead
	case n == 3:
		q.condition = r.known[q.page.path+q.lang]
	case n == 4 && !q.page.trailers:
		q.from = r.chance.IntN(q.page.size / 2)
		q.to = q.from + r.chance.IntN(q.page.size/2)
	}
	return q
}

func (q *stormQuestion) text() string {
	var fields []string
	if q.lang != "any" {
		fields = append(fields, "Accept-Language: "+q.lang)
	}
	if q.condition != "" {
		fields = append(fields, "If-None-Match: "+q.condition)
	}
	if q.anew {
		fields = append(fields, "Cache-Control: no-cache")
	}
	if q.to > 0 {
		fields = append(fields, fmt.Sprintf("Range: bytes=%d-%d", q.from, q.to))
	}
	return request(q.method, q.page.path, fields...)
}

// ask sends requests in one piece and checks the answers. An error means that the connection is of no more use.
func (r *stormReader) ask(questions []stormQuestion) error {
	if err := r.dial(); err != nil {
		return err
	}
	text := ""
	for i := range questions {
		q := &questions[i]
		q.promised = q.page.promised.Load()
		text += q.text()
	}
	_ = r.conn.SetDeadline(time.Now().Add(clientLimit))
	if _, err := io.WriteString(r.conn, text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	for i := range questions {
		a, err := readStrict(r.br, questions[i].method)
		if err != nil {
			return fmt.Errorf("%s %s: %w", questions[i].method, questions[i].page.path, err)
		}
		r.weigh(&questions[i], &a)
		if a.closes() && i < len(questions)-1 {
			return errors.New("the server closed before the second of two answers")
		}
		if a.closes() {
			r.hangUp()
			return nil
		}
	}
	if n := r.br.Buffered(); n > 0 {
		rest, _ := r.br.Peek(min(n, 200))
		return fmt.Errorf("%d bytes behind the answer to %s %s: %q", n, questions[len(questions)-1].method, questions[len(questions)-1].page.path, rest)
	}
	return nil
}

func (r *stormReader) dial() (err error) {
	if r.conn != nil {
		return nil
	}
	if r.conn, err = net.Dial("tcp", r.addr); err == nil {
		r.br = bufio.NewReader(r.conn)
	}
	return err
}

func (r *stormReader) hangUp() {
	if r.conn != nil {
		_ = r.conn.Close()
	}
	r.conn = nil
}

// weigh checks an answer and what was promised.
func (r *stormReader) weigh(q *stormQuestion, a *strictAnswer) {
	v, err := q.check(a)
	r.count("answers", 1)
	if strings.Contains(a.get("Cache-Status"), "; hit") {
		r.count("hits", 1)
	}
	switch {
	case err != nil:
		r.complain("wrong answers"+source(a), "%s: %v; head:\n%s", q, err, a.head)
	case v < q.promised:
		r.complain("older than promised"+source(a), "%s: v%d, promised v%d, v%d at the origin; head:\n%s", q, v, q.promised, q.page.now.Load(), a.head)
	default:
		r.known[q.page.path+q.lang] = stormTag(v, q.lang)
	}
}

// source tells whether an answer is that to a POST, of which only those have a Content-Location.
func source(a *strictAnswer) string {
	if a.get("Content-Location") != "" {
		return " from a POST"
	}
	return ""
}

func (q *stormQuestion) String() string {
	s := q.method + " " + q.page.path + " (" + q.page.control + ")"
	if q.condition != "" {
		s += " if not " + q.condition
	}
	if q.anew {
		s += " anew"
	}
	if q.to > 0 {
		s += fmt.Sprintf(" from %d to %d", q.from, q.to)
	}
	return s
}

// check compares an answer with the version that it says it is, and returns that.
func (q *stormQuestion) check(a *strictAnswer) (int64, error) {
	var v int64
	if n, err := fmt.Sscanf(a.get("ETag"), `"v%d-`, &v); n != 1 {
		return 0, fmt.Errorf("etag %q: %w", a.get("ETag"), err)
	}
	if etag := stormTag(v, q.lang); a.get("ETag") != etag {
		return v, fmt.Errorf("etag %s, want %s", a.get("ETag"), etag)
	}
	if a.status == http.StatusNotModified {
		if q.condition != a.get("ETag") {
			return v, fmt.Errorf("304 with %s to If-None-Match: %s", a.get("ETag"), q.condition)
		}
		return v, nil
	}
	whole := q.page.body(v, q.lang)
	switch {
	case a.count("Cache-Status") != 1:
		return v, fmt.Errorf("%d lines of Cache-Status, want 1: the origin sends none", a.count("Cache-Status"))
	case a.get("X-Version") != fmt.Sprint(v):
		return v, fmt.Errorf("X-Version %s beside ETag %s", a.get("X-Version"), a.get("ETag"))
	case a.status == http.StatusPartialContent && q.to > 0:
		return v, q.checkPart(a, whole)
	case a.status != http.StatusOK:
		return v, fmt.Errorf("status %d", a.status)
	case a.get("Content-Length") != "" && a.get("Content-Length") != strconv.Itoa(len(whole)):
		return v, fmt.Errorf("content-length %s, want %d", a.get("Content-Length"), len(whole))
	case q.method == http.MethodHead:
		return v, nil
	case string(a.body) != whole:
		return v, fmt.Errorf("body of %d bytes, %q; want %d, %q", len(a.body), clip(string(a.body)), len(whole), clip(whole))
	case q.page.trailers && q.method == http.MethodGet && get(a.trailer, "X-Trailer-Version") != fmt.Sprint(v):
		return v, fmt.Errorf("trailer %v, want version %d", a.trailer, v)
	}
	return v, nil
}

func (q *stormQuestion) checkPart(a *strictAnswer, whole string) error {
	want := fmt.Sprintf("bytes %d-%d/%d", q.from, q.to, len(whole))
	if a.get("Content-Range") != want || string(a.body) != whole[q.from:q.to+1] {
		return fmt.Errorf("content-range %q, want %q; %d bytes, %q", a.get("Content-Range"), want, len(a.body), clip(string(a.body)))
	}
	return nil
}

// wantNewest asks for every page twice when all purges are answered.
func (s *storm) wantNewest(p *proxy, when string) {
	r := &stormReader{storm: s, addr: p.Addr(), known: make(map[string]string)}
	defer r.hangUp()
	for range 2 {
		for _, pg := range s.pages {
			for _, lang := range []string{"any", "de", "fr"} {
				if lang != "any" && !pg.varied {
					continue
				}
				if err := r.ask([]stormQuestion{{page: pg, method: http.MethodGet, lang: lang}}); err != nil {
					r.hangUp()
					s.complain("malformed or missing answers "+when, "%v", err)
				}
			}
		}
	}
}

func (s *storm) count(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what] += n
}

// complain keeps the first few complaints of a kind and counts all.
func (s *storm) complain(kind, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const shown = 3
	if len(s.wrong[kind]) < shown {
		s.wrong[kind] = append(s.wrong[kind], fmt.Sprintf(format, args...))
	}
	s.counts[kind]++
}

// report fails the test with what was wrong, and says what there was.
func (s *storm) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, first := range s.wrong {
		s.t.Errorf("%d %s, the first:\n%s", s.counts[kind], kind, strings.Join(first, "\n"))
	}
	if s.counts["hits"] == 0 {
		s.t.Error("no answer came from the cache")
	}
	s.t.Logf("%v", s.counts)
}
