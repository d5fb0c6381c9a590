package cache

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// HitRequest is a GET or HEAD of HTTP/1.1 without content, as a server found it in its read buffer: strictly well-formed, in
// origin form, with one Host. All byte slices belong to the buffer and end with the call.
type HitRequest struct {
	// Method is "GET" or "HEAD".
	Method string
	// Target is the request target as sent; it has only octets that stand for themselves (RFC 3986 §3.3), and begins with a slash.
	Target []byte
	// Host is the value of the Host field.
	Host []byte
	// Fields are the other fields in the order they came. None of them is Connection (but for keep-alive), Content-Length, Expect, Range,
	// Transfer-Encoding, Upgrade or a proxy's own.
	Fields []HitField
	// Remote is the peer's address.
	Remote string
	// At is when the head was complete.
	At time.Time
}

// HitField is one field line, without the white space around its value.
type HitField struct {
	Name, Value []byte
}

// HitAnswer is a response that is ready to be written. Its memory is used again by the next one.
type HitAnswer struct {
	// Head is the response's head, empty line included. Hit appends to it.
	Head []byte
	// Body is the content, shared and not to be modified; nil for HEAD and 304.
	Body []byte

	read hitRead
}

// hitRead is what a read on the hit path works with: the request in the form that the ordinary path has it, so that both ask the
// same functions. Its strings are views of the server's buffer; none of them may outlive the answer.
type hitRead struct {
	request http.Request
	url     url.URL
	header  http.Header
	values  []string
	later   []*HitField // not in header yet
	rule    *rule
	target  policy.Target
	policy  policy.Request
	key     []byte // the primary key
	variant []byte
	found   found
	status  policy.CacheStatus
	ev      ReadEvent
}

// Hit answers a request from memory if that needs nothing but memory: a fresh record, or a stale one that is being refreshed or may not be
// refreshed yet; whole, and chosen without doubt. Otherwise it returns false having done nothing, and the request takes the
// ordinary path. The bytes are those of the ordinary path behind net/http.
//
// It does not wait and, where the request's field names are usual ones, does not allocate. HitSent must follow each true.
func (c *Cache) Hit(q *HitRequest, a *HitAnswer) bool {
	h := &a.read
	if !h.adopt(q) || !c.resolveHit(h) || !c.lookupHit(h) {
		return false
	}
	v := policy.Judge(h.found.life, &h.policy, q.At)
	switch {
	case v.Use == policy.Fresh:
		h.ev.Result = ResultHit
	case v.Use == policy.StaleWhileRevalidate && c.refreshing(h, q.At):
		h.ev.Result = ResultStale
	default:
		return false
	}
	h.ev.Reason, h.ev.Start = v.Reason, q.At
	return h.compose(a, q.At)
}

// HitSent reports an answer: sent bytes of its body went out, whole tells whether that was all.
func (c *Cache) HitSent(a *HitAnswer, sent int64, whole bool) {
	h := &a.read
	ev := &h.ev
	ev.Took = time.Since(ev.Start)
	ev.Rule = h.rule.name
	ev.Method, ev.Scheme, ev.Host, ev.Path, ev.Query = h.target.Method, h.target.Scheme, h.target.Authority, h.target.Path, h.target.RawQuery
	ev.Remote, ev.Proto = h.request.RemoteAddr, h.request.Proto
	ev.Bytes, ev.ClientGone = sent, !whole
	c.obs.ReadDone(ev)
	a.Body = nil
	h.found = found{}
}

// view makes a string of bytes that do not change while it is used.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// adopt puts the request into the form of net/http. False means that net/http would do more than copy.
func (h *hitRead) adopt(q *HitRequest) bool {
	if h.header == nil {
		h.header = make(http.Header, 16)
		h.request = http.Request{
			URL: &h.url, Header: h.header, Body: http.NoBody, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}
	}
	clear(h.header)
	h.values, h.later = h.values[:0], h.later[:0]
	for i := range q.Fields {
		f := &q.Fields[i]
		if isPreference(f.Name) {
			h.later = append(h.later, f)
			continue
		}
		if !h.add(f) {
			return false
		}
	}
	target := view(q.Target)
	h.url.Path, h.url.RawQuery, h.url.ForceQuery = cutQuery(target)
	h.request.Method, h.request.RequestURI, h.request.Host, h.request.RemoteAddr = q.Method, target, view(q.Host), q.Remote
	return true
}

// add appends a field line. Values of one line each share one array. False means that net/http derives another field from it.
func (h *hitRead) add(f *HitField) bool {
	name, value := textproto.CanonicalMIMEHeaderKey(view(f.Name)), view(f.Value)
	if have, ok := h.header[name]; ok {
		h.header[name] = append(have[:len(have):len(have)], value)
		return true
	}
	h.values = append(h.values, value)
	n := len(h.values)
	h.header[name] = h.values[n-1 : n : n]
	return name != "Pragma"
}

// addLater adds the fields that were left out so far. They count for keys and variants only.
func (h *hitRead) addLater() {
	for _, f := range h.later {
		h.add(f)
	}
	h.later = h.later[:0]
}

// isPreference tells whether a field says what a client is or likes. Browsers send a dozen of these, and only a rule's key or a response's Vary
// can make one of them matter, so that most hits need not look at them. A Config.Scheme does not see them here.
func isPreference(name []byte) bool {
	switch len(name) {
	case len("accept"):
		return foldEqual(name, "accept")
	case len("referer"):
		return foldEqual(name, "referer")
	case len("priority"):
		return foldEqual(name, "priority")
	case len("user-agent"):
		return foldEqual(name, "user-agent")
	case len("accept-encoding"):
		return foldEqual(name, "accept-encoding") || foldEqual(name, "accept-language")
	case len("upgrade-insecure-requests"):
		return foldEqual(name, "upgrade-insecure-requests")
	}
	return len(name) > 4 && foldEqual(name[:4], "sec-")
}

// foldEqual compares a name, which is a token, with one in lower case of the same length.
func foldEqual(name []byte, lower string) bool {
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// cutQuery splits a target as net/url does.
func cutQuery(target string) (path, query string, force bool) {
	path, query, found := strings.Cut(target, "?")
	return path, query, found && query == ""
}

// resolveHit finds target, rule and key.
func (c *Cache) resolveHit(h *hitRead) bool {
	var err error
	if h.target, err = policy.NewTarget(&h.request, c.scheme(&h.request)); err != nil {
		return false
	}
	h.rule = c.rules.Load().find(&h.target)
	if h.rule == nil || h.rule.pass || c.closed.Load() {
		return false
	}
	h.policy = policy.ReadRequest(&h.request, h.rule.settings.Directives)
	if _, pass := policy.Pass(&h.policy, &h.rule.settings); pass || h.policy.Range {
		return false
	}
	if !h.rule.key.Simple() {
		h.addLater()
	}
	h.key = h.rule.key.Append(h.key[:0], &h.target, h.header)
	return true
}

// lookupHit finds the record, as Cache.lookup does.
func (c *Cache) lookupHit(h *hitRead) bool {
	rec, life, ok := c.get(view(h.key))
	if !ok {
		return false
	}
	h.found = found{rec: rec, life: life}
	if x := rec.Index; x != nil {
		h.addLater()
		h.found = found{}
		if len(x.Specs) > 0 {
			h.found.spec, h.found.known = x.Specs[0], true
		}
		for _, spec := range x.Specs {
			h.variant = appendVariantKey(h.variant[:0], view(h.key), spec, h.header)
			h.found.consider(c.get(view(h.variant)))
		}
	}
	return h.found.rec != nil && h.found.rec.plain()
}

// plain tells whether a record is answered by its fields and bytes as they are.
func (r *Record) plain() bool {
	_, inMemory := r.Body.Bytes()
	switch {
	case !inMemory, r.Partial != nil, r.Index != nil, r.Trailer.Block() != "":
		return false
	case r.Status < http.StatusOK, r.Status == http.StatusNoContent, r.Status == http.StatusNotModified:
		return false
	}
	return http.StatusText(r.Status) != ""
}

// refreshing tells whether a stale answer needs no attempt to refresh its record: one is under way, or has failed and the pause is not over. The
// attempt itself is the ordinary path's.
func (c *Cache) refreshing(h *hitRead, now time.Time) bool {
	key := h.fillKey()
	if c.states.backingOff(key, now) {
		return true
	}
	fl := c.flights.get(key)
	return fl != nil && !fl.stalled(now)
}

// fillKey is read.fillKey for requests that carry no range.
func (h *hitRead) fillKey() fill.Key {
	id := h.key
	if h.found.known {
		h.variant = appendVariantKey(h.variant[:0], view(h.key), h.found.spec, h.header)
		id = h.variant
	}
	if h.policy.Authorization {
		id = append(id[:len(id):len(id)], "\xfeauthorized"...)
	}
	return fill.Key{Space: h.rule.name, ID: strings.TrimPrefix(view(id), h.rule.name)}
}

// compose writes the head and sets the body. False means that the ordinary path has to weigh the request's conditions.
func (h *hitRead) compose(a *HitAnswer, now time.Time) bool {
	rec := h.found.rec
	unmodified, ok := h.unmodified(rec)
	if !ok {
		return false
	}
	h.describe(now)
	b, ok := h.appendHead(a.Head, rec, unmodified, now)
	if !ok {
		return false
	}
	a.Head, a.Body = b, nil
	if !unmodified && h.request.Method == http.MethodGet {
		a.Body, _ = rec.Body.Bytes()
	}
	return true
}

// describe is read.hitStatus.
func (h *hitRead) describe(now time.Time) {
	h.status = policy.CacheStatus{Hit: true, TTL: policy.Seconds(h.found.life.TTL(now)), HasTTL: true}
	if h.ev.Result != ResultHit {
		h.status.Detail = h.ev.Reason.String()
	}
}

// unmodified answers the plainest conditions, those of a client that shows what it got from here (RFC 9110 §13.1.2, §13.1.3): one
// entity tag or date, equal to the stored one. ok is false for all others.
func (h *hitRead) unmodified(rec *Record) (yes, ok bool) {
	if !h.policy.Conditional || rec.Status > 299 {
		return false, true
	}
	header := h.header
	if len(header["If-Match"])+len(header["If-Unmodified-Since"]) > 0 {
		return false, false
	}
	tags, since := header["If-None-Match"], header["If-Modified-Since"]
	switch {
	case len(tags) == 1:
		yes = isEntityTag(tags[0]) && rec.firstField("Etag") == tags[0]
	case len(tags) == 0 && len(since) == 1:
		yes = rec.firstField("Last-Modified") == since[0] && isFixdate(since[0])
	}
	return yes, yes
}

// firstField is Fields.Get.
func (r *Record) firstField(name string) string {
	for block := r.Fields.Block(); block != ""; {
		n, end := nextLine(block)
		if n == name {
			return block[len(name)+len(": ") : end-len("\r\n")]
		}
		block = block[end:]
	}
	return ""
}

// isEntityTag accepts one entity tag without anything odd in it: RFC 9110 §8.8.3.
func isEntityTag(s string) bool {
	s = strings.TrimPrefix(s, "W/")
	if len(s) < 2 || s[0] != '"' || strings.IndexByte(s[1:], '"') != len(s)-2 {
		return false
	}
	return strings.IndexByte(s, ' ') < 0 && strings.IndexByte(s, '\t') < 0
}

// isFixdate accepts a date in the preferred form, right down to the day's name: RFC 9110 §5.6.7.
func isFixdate(s string) bool {
	t, err := time.Parse(http.TimeFormat, s)
	if err != nil || len(s) != len(http.TimeFormat) {
		return false
	}
	var buf [len(http.TimeFormat)]byte
	return string(t.AppendFormat(buf[:0], http.TimeFormat)) == s
}

// appendHead writes what net/http would write for the record's fields with Age, Cache-Status and Content-Length set: the lines
// in the order of their names. False means that net/http would add a field of its own.
func (h *hitRead) appendHead(b []byte, rec *Record, unmodified bool, now time.Time) ([]byte, bool) {
	w := headWriter{b: b, h: h, rec: rec, unmodified: unmodified, now: now}
	status := rec.Status
	if unmodified {
		status = http.StatusNotModified
	}
	h.ev.Status = status
	w.b = append(w.b, "HTTP/1.1 "...)
	w.b = strconv.AppendInt(w.b, int64(status), 10)
	w.b = append(append(append(w.b, ' '), http.StatusText(status)...), "\r\n"...)
	if unmodified {
		w.some(rec.Fields.Block())
	} else {
		w.all(rec.Fields.Block())
	}
	w.ownBefore(lastName)
	return append(w.b, "\r\n"...), unmodified || w.typed || rec.Body.Size() == 0
}

// ownFields are those that an answer computes, in the order of their names.
var ownFields = [...]string{"Age", "Cache-Status", "Content-Length"}

// lastName is behind every field name.
const lastName = "\x7f"

// headWriter merges a record's fields, which are in the order of their names, with the computed ones.
type headWriter struct {
	b          []byte
	h          *hitRead
	rec        *Record
	unmodified bool
	etag       string
	now        time.Time
	next       int // the computed field that comes next
	typed      bool
}

// all writes every line. Behind Content-Type there is nothing to look at: that part is copied whole.
func (w *headWriter) all(block string) {
	for block != "" && (w.next < len(ownFields) || !w.typed) {
		name, end := nextLine(block)
		w.ownBefore(name)
		switch name {
		case "Age", "Content-Length": // computed
		case "Content-Type":
			w.typed = true
			fallthrough
		default:
			w.b = append(w.b, block[:end]...)
		}
		block = block[end:]
	}
	w.b = append(w.b, block...)
}

// some writes the lines that a 304 has.
func (w *headWriter) some(block string) {
	for block != "" {
		name, end := nextLine(block)
		w.ownBefore(name)
		if name == "Etag" && w.etag == "" {
			w.etag = block[len("Etag: ") : end-len("\r\n")] // comes before Last-Modified, whose place depends on it
		}
		if name != "Age" && policy.InNotModified(name, w.etag) {
			w.b = append(w.b, block[:end]...)
		}
		block = block[end:]
	}
}

// ownBefore writes the computed fields that come before a name.
func (w *headWriter) ownBefore(name string) {
	for w.next < len(ownFields) && name > ownFields[w.next] {
		w.own()
		w.next++
	}
}

// nextLine returns the name of the first line of a block and where the line ends.
func nextLine(block string) (name string, end int) {
	end = strings.IndexByte(block, '\n') + 1
	return block[:strings.IndexByte(block[:end], ':')], end
}

// own writes the computed field that is due.
func (w *headWriter) own() {
	switch w.next {
	case 0:
		w.b = append(w.b, "Age: "...)
		w.b = strconv.AppendInt(w.b, int64(w.h.found.life.Age(w.now)/time.Second), 10)
	case 1:
		w.b = append(w.b, "Cache-Status: "...)
		w.b = w.h.status.Append(w.b)
	default:
		if w.unmodified {
			return
		}
		w.b = append(w.b, "Content-Length: "...)
		w.b = strconv.AppendInt(w.b, w.rec.Body.Size(), 10)
	}
	w.b = append(w.b, "\r\n"...)
}
