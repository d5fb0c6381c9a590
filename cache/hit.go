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
	asked   asked
	target  policy.Target
	policy  policy.Request
	key     []byte // the primary key
	variant []byte
	found   found
	life    *policy.Life  // of the record found; it may be part of it
	age     time.Duration // by that
	ev      ReadEvent
}

// Hit answers a request from memory if that needs nothing but memory: a fresh record, or a stale one that is being refreshed, may not be
// refreshed yet, or finds no place among its origin's fills; whole, and chosen without doubt. Otherwise it returns false having done nothing, and the request takes the
// ordinary path. The bytes are those of the ordinary path behind net/http.
//
// It does not wait and, where the request's field names are usual ones, does not allocate. HitSent must follow each true.
func (c *Cache) Hit(q *HitRequest, a *HitAnswer) bool {
	h := &a.read
	if !h.adopt(q) || !c.resolveHit(h) || !c.lookupHit(h) {
		return false
	}
	h.age = h.life.Age(q.At)
	v := policy.JudgeAge(h.life, &h.policy, h.age)
	switch {
	case v.Use == policy.Fresh:
		h.ev.Result = ResultHit
	case v.Use == policy.StaleWhileRevalidate && c.refreshing(h, q.At):
		h.ev.Result = ResultStale
	default:
		return false
	}
	h.ev.Reason, h.ev.Start = v.Reason, q.At
	return h.compose(a)
}

// HitSent reports an answer: sent bytes of its body went out, whole tells whether that was all.
func (c *Cache) HitSent(a *HitAnswer, sent int64, whole bool) {
	h := &a.read
	ev := &h.ev
	ev.Took = time.Since(ev.Start)
	ev.Rule = h.rule.name
	h.nameTarget()
	ev.Remote, ev.Proto = h.request.RemoteAddr, h.request.Proto
	ev.Bytes, ev.ClientGone = sent, !whole
	c.obs.ReadDone(ev)
	a.Body = nil
	h.found.rec, h.found.spec, h.life = nil, nil, nil // not to be kept in memory from here
}

// nameTarget tells the observer of the target in strings that stay as they are: those of the record's key, where it has them, else copies. The target's own
// are views of a buffer that is used again.
func (h *hitRead) nameTarget() {
	t, ev := &h.target, &h.ev
	rest := urlOf(urlPrefix(h.found.rec.Primary))
	ev.Method = t.Method
	ev.Scheme, rest = stable(t.Scheme, rest)
	ev.Host, rest = stable(t.Authority, strings.TrimPrefix(rest, "://"))
	ev.Path, rest = stable(t.Path, rest)
	ev.Query, _ = stable(t.RawQuery, strings.TrimPrefix(rest, "?"))
}

// stable returns a string equal to s: the beginning of text if that is the same, else a copy. rest is what follows in text.
func stable(s, text string) (same, rest string) {
	if strings.HasPrefix(text, s) {
		return text[:len(s)], text[len(s):]
	}
	return strings.Clone(s), text
}

// view makes a string of bytes that do not change while it is used.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// asked is what the commonest fields of a request say to policy.
type asked struct {
	// others: there are fields that policy has to read itself.
	others bool
	cookie bool
	// tags and dates count the lines of If-None-Match and If-Modified-Since; tag and date are their values.
	tags, dates int
	tag, date   string
}

// adopt puts the request into the form of net/http. False means that net/http would do more than copy.
func (h *hitRead) adopt(q *HitRequest) bool {
	if h.header == nil {
		h.header = make(http.Header, 16)
		h.request = http.Request{
			URL: &h.url, Header: h.header, Body: http.NoBody, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}
	}
	if len(h.header) > 0 {
		clear(h.header)
	}
	h.values, h.later, h.asked = h.values[:0], h.later[:0], asked{}
	for i := range q.Fields {
		f := &q.Fields[i]
		if isPreference(f.Name) || h.asked.note(f) {
			h.later = append(h.later, f)
			continue
		}
		h.asked.others = true
		if !h.add(f) {
			return false
		}
	}
	target := view(q.Target)
	h.url.Path, h.url.RawQuery, h.url.ForceQuery = cutQuery(target)
	h.request.Method, h.request.RequestURI, h.request.Host, h.request.RemoteAddr = q.Method, target, view(q.Host), q.Remote
	return true
}

// note takes a field into account if it is one of the commonest that policy looks at.
func (a *asked) note(f *HitField) bool {
	switch len(f.Name) {
	case len("cookie"):
		if !named(f.Name, "Cookie", "cookie") {
			return false
		}
		a.cookie = true
	case len("if-none-match"):
		if !named(f.Name, "If-None-Match", "if-none-match") {
			return false
		}
		a.tags, a.tag = a.tags+1, view(f.Value)
	case len("if-modified-since"):
		if !named(f.Name, "If-Modified-Since", "if-modified-since") {
			return false
		}
		a.dates, a.date = a.dates+1, view(f.Value)
	default:
		return false
	}
	return true
}

// readPolicy is policy.ReadRequest, without looking for what is known not to be there. False means that the request passes the cache by.
func (h *hitRead) readPolicy() bool {
	if h.asked.others {
		h.addLater()
		h.policy = policy.ReadRequest(&h.request, h.rule.settings.Directives)
		_, pass := policy.Pass(&h.policy, &h.rule.settings)
		return !pass && !h.policy.Range
	}
	h.policy = policy.Request{Method: h.request.Method, Cookie: h.asked.cookie, Conditional: h.asked.tags+h.asked.dates > 0}
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
// can make one of them matter, so that most hits need not look at them. A Config.Scheme does not see them here, nor what asked.note has taken.
func isPreference(name []byte) bool {
	switch len(name) {
	case len("accept"):
		return named(name, "Accept", "accept")
	case len("referer"):
		return named(name, "Referer", "referer")
	case len("priority"):
		return named(name, "Priority", "priority")
	case len("user-agent"):
		return named(name, "User-Agent", "user-agent")
	case len("accept-encoding"):
		return named(name, "Accept-Encoding", "accept-encoding") || named(name, "Accept-Language", "accept-language")
	case len("upgrade-insecure-requests"):
		return named(name, "Upgrade-Insecure-Requests", "upgrade-insecure-requests")
	}
	return len(name) > 4 && foldEqual(name[:4], "sec-")
}

// named tells whether name is the field's name: in the case that clients of HTTP/1.1 use, or in any other.
func named(name []byte, usual, lower string) bool {
	return string(name) == usual || foldEqual(name, lower)
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
	u := &h.url
	if !h.target.SetPlain(h.request.Method, c.scheme(&h.request), h.request.Host, u.Path, u.RawQuery) {
		return false
	}
	h.rule = c.rules.Load().find(&h.target)
	if h.rule == nil || h.rule.pass || c.closed.Load() {
		return false
	}
	if !h.readPolicy() {
		return false
	}
	if !h.rule.key.Simple() {
		h.addLater()
	}
	h.key = h.rule.key.Append(h.key[:0], &h.target, h.header)
	return true
}

// lookupHit finds the record in memory, as Cache.lookup does.
func (c *Cache) lookupHit(h *hitRead) bool {
	rec, ok := c.nearby(view(h.key))
	if !ok {
		return false
	}
	f := &h.found
	f.rec, f.spec, f.known, h.life = rec, nil, false, &rec.Life
	if c.w.log.mayConcern(rec) {
		if f.life, ok = c.w.log.apply(rec); !ok {
			return false
		}
		h.life = &f.life
	}
	if x := rec.Index; x != nil {
		h.addLater()
		if !c.chooseNearby(h, x) {
			return false
		}
		h.life = &f.life
	}
	return f.rec != nil && f.rec.plain()
}

// chooseNearby finds the variant. False means that there may be a younger one that is not in memory.
func (c *Cache) chooseNearby(h *hitRead, x *Index) bool {
	h.found = found{}
	if len(x.Specs) > 0 {
		h.found.spec, h.found.known = x.Specs[0], true
	}
	missing := false
	for _, spec := range x.Specs {
		h.variant = appendVariantKey(h.variant[:0], view(h.key), spec, h.header)
		rec, life, ok := c.getNearby(view(h.variant))
		h.found.consider(rec, life, ok)
		missing = missing || !ok
	}
	return !missing || !c.farther || len(x.Specs) == 1
}

// plain tells whether a record is answered by its fields and bytes as they are.
func (r *Record) plain() bool {
	_, inMemory := r.Body.Bytes()
	switch {
	case !inMemory, r.Partial != nil, r.Index != nil, r.Trailer.Block() != "":
		return false
	case !policy.StatusHasContent(r.Status):
		return false
	}
	return http.StatusText(r.Status) != ""
}

// refreshing tells whether a stale answer needs no attempt to refresh its record: one is under way, or has failed and the pause is not over, or the
// origin has all the fills that it may have. The attempt itself is the ordinary path's.
func (c *Cache) refreshing(h *hitRead, now time.Time) bool {
	key := h.fillKey()
	if c.states.backingOff(key, now) {
		return true
	}
	if fl := c.flights.get(key); fl != nil && !fl.stalled(now) {
		return true
	}
	return !h.rule.hasSlot()
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
func (h *hitRead) compose(a *HitAnswer) bool {
	rec := h.found.rec
	unmodified, ok := h.unmodified(rec)
	if !ok {
		return false
	}
	b, ok := h.appendHead(a.Head, rec, unmodified)
	if !ok {
		return false
	}
	a.Head, a.Body = b, nil
	if !unmodified && h.request.Method == http.MethodGet {
		a.Body, _ = rec.Body.Bytes()
	}
	return true
}

// unmodified answers the plainest conditions, those of a client that shows what it got from here (RFC 9110 §13.1.2, §13.1.3): one
// entity tag or date, equal to the stored one. ok is false for all others.
func (h *hitRead) unmodified(rec *Record) (yes, ok bool) {
	if !h.policy.Conditional || rec.Status > 299 {
		return false, true
	}
	if h.asked.others && len(h.header["If-Match"])+len(h.header["If-Unmodified-Since"]) > 0 {
		return false, false
	}
	a := &h.asked
	switch {
	case a.tags == 1:
		yes = rec.Fields.marks.has(markTag) && rec.Fields.marks.etagOf(rec.Fields.block) == a.tag
	case a.tags == 0 && a.dates == 1:
		yes = rec.firstField("Last-Modified") == a.date && isFixdate(a.date)
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
// in the order of their names. False means that net/http would add a field of its own, or that the record's fields are unusual.
func (h *hitRead) appendHead(b []byte, rec *Record, unmodified bool) ([]byte, bool) {
	m := &rec.Fields.marks
	switch {
	case !m.has(markMade), m.has(markUnusual), unmodified && m.has(markManyRuns), !unmodified && !m.has(markTyped) && rec.Body.Size() > 0:
		return b, false
	}
	w := headWriter{b: h.appendStatus(b, rec, unmodified), block: rec.Fields.block, m: m}
	if !unmodified {
		w.run = leftRuns
	}
	w.upTo(int(m.own[0]))
	w.b = strconv.AppendInt(append(w.b, "Age: "...), int64(h.age/time.Second), 10)
	w.b = append(w.b, "\r\n"...)
	w.upTo(int(m.own[1]))
	w.b = append(h.appendCacheStatus(append(w.b, "Cache-Status: "...)), "\r\n"...)
	w.upTo(int(m.own[2]))
	if !unmodified {
		w.b = strconv.AppendInt(append(w.b, "Content-Length: "...), rec.Body.Size(), 10)
		w.b = append(w.b, "\r\n"...)
	}
	w.upTo(len(w.block))
	return append(w.b, "\r\n"...), true
}

// appendStatus writes the status line.
func (h *hitRead) appendStatus(b []byte, rec *Record, unmodified bool) []byte {
	h.ev.Status = rec.Status
	switch {
	case unmodified:
		h.ev.Status = http.StatusNotModified
		return append(b, "HTTP/1.1 304 Not Modified\r\n"...)
	case rec.Status == http.StatusOK:
		return append(b, "HTTP/1.1 200 OK\r\n"...)
	}
	b = append(strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(rec.Status), 10), ' ')
	return append(append(b, http.StatusText(rec.Status)...), "\r\n"...)
}

// appendCacheStatus writes what read.hitStatus says.
func (h *hitRead) appendCacheStatus(b []byte) []byte {
	detail := h.ev.Reason
	if h.ev.Result == ResultHit {
		detail = 0
	}
	return policy.AppendHit(b, h.life.FreshFor-h.age, detail)
}

// headWriter copies a record's fields.
type headWriter struct {
	b     []byte
	block string
	m     *marks
	at    int // what is before it is written, or left out
	run   int // the next one to leave out
}

// upTo writes the lines before end.
func (w *headWriter) upTo(end int) {
	for m := w.m; w.run < leftRuns && m.leftSize[w.run] > 0 && int(m.left[w.run]) < end; w.run++ {
		w.b = append(w.b, w.block[w.at:m.left[w.run]]...)
		w.at = m.leftEnd(w.run)
	}
	if w.at < end {
		w.b = append(w.b, w.block[w.at:end]...)
		w.at = end
	}
}
