package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

// smallBody is the length up to which a reader who needs no body waits for it all the same, so that its next request finds the record.
const smallBody = 64 << 10

// copyBufferSize is the size of the buffers that bodies from disk and from upstreams are copied with.
const copyBufferSize = 32 << 10

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyBufferSize); return &b }}

// answer writes a stored record: the client's conditions and ranges are applied to it, Age and Cache-Status are added.
func (rd *read) answer(rec *Record, result Result, why policy.Reason) {
	rd.beginAnswer(rec, result, why)
	h := rd.w.Header()
	if rd.answeredCondition(rec.Status, h, rec.Life.BornAt) {
		return
	}
	if rec.Status == http.StatusOK && rd.req.Range && rd.answeredRange(rec) {
		return
	}
	h["Content-Length"] = []string{strconv.FormatInt(rec.Body.Size(), 10)}
	var trailer http.Header
	if rec.Trailer.Block() != "" {
		trailer = rec.Trailer.Header()
		rd.announceTrailer(trailerNames(trailer))
	}
	rd.writeHeader(rec.Status)
	rd.sendBody(rec, 0, rec.Body.Size())
	rd.sendTrailer(trailer)
}

// beginAnswer puts a record's fields, Age and Cache-Status into the client's header.
func (rd *read) beginAnswer(rec *Record, result Result, why policy.Reason) {
	now := time.Now()
	rd.ev.Result, rd.ev.Reason = result, why
	rd.hitStatus(result, why, now)
	h := rd.w.Header()
	rec.Fields.AddTo(h)
	h["Age"] = []string{strconv.FormatInt(int64(rd.ageOf(rec, now)/time.Second), 10)}
	policy.AddCacheStatus(h, &rd.status)
}

// ageOf is the current age of a record; the life at hand knows of soft invalidations, the record's own does not.
func (rd *read) ageOf(rec *Record, now time.Time) time.Duration {
	if rec == rd.found.rec {
		return rd.found.life.Age(now)
	}
	return rec.Life.Age(now)
}

// hitStatus fills in Cache-Status for an answer from a record: RFC 9211 §2.
func (rd *read) hitStatus(result Result, why policy.Reason, now time.Time) {
	s := &rd.status
	switch result {
	case ResultHit, ResultStale, ResultStaleError:
		s.Hit, s.Fwd, s.FwdStatus, s.Stored = true, policy.FwdNone, 0, false
		s.TTL, s.HasTTL = policy.Seconds(rd.found.life.TTL(now)), true
		if result != ResultHit {
			s.Detail = why.String()
		}
	case ResultRevalidated:
		s.Fwd = policy.FwdStale
	case ResultCollapsed:
		s.Collapsed = true
	}
}

// answeredCondition answers 304 or 412 where the client's conditions ask for it: RFC 9110 §13.2.2.
func (rd *read) answeredCondition(status int, h http.Header, bornAt time.Time) bool {
	if !rd.req.Conditional {
		return false
	}
	switch rd.rule.settings.Evaluate(rd.r.Header, rd.r.Method, status, h, bornAt) {
	case policy.ConditionNotModified:
		keep := policy.NotModifiedHeader(h)
		keep["Age"], keep["Cache-Status"] = h["Age"], h["Cache-Status"]
		if keep["Age"] == nil {
			delete(keep, "Age")
		}
		clear(h)
		for name, values := range keep {
			h[name] = values
		}
		rd.writeHeader(http.StatusNotModified)
		return true
	case policy.ConditionFailed:
		rd.ev.Reason = policy.ReasonCondition
		clearRepresentation(h)
		rd.writeHeader(http.StatusPreconditionFailed)
		return true
	default:
		return false
	}
}

// clearRepresentation removes the fields that describe a body which this answer does not have.
func clearRepresentation(h http.Header) {
	for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Language", "Content-Location", "Content-Range", "Content-Length"} {
		delete(h, name)
	}
}

// trailerNames are the names of trailer fields, sorted; nil for none.
func trailerNames(trailer http.Header) []string {
	if len(trailer) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(trailer))
}

// announceTrailer names the trailer fields that sendTrailer will send.
func (rd *read) announceTrailer(names []string) {
	for _, name := range names {
		rd.w.Header().Add("Trailer", name)
	}
	if len(names) > 0 {
		rd.w.Header().Del("Content-Length") // HTTP/1.1 has trailers only behind a chunked body
	}
}

func (rd *read) sendTrailer(trailer http.Header) {
	for name, values := range trailer {
		for _, v := range values {
			rd.w.Header().Add(name, v)
		}
	}
}

func (rd *read) writeHeader(status int) {
	rd.ev.Status = status
	if rd.holding {
		rd.held = status
		return
	}
	rd.w.WriteHeader(status)
}

// release sends a head that was held.
func (rd *read) release() {
	if status := rd.held; status != 0 {
		rd.held = 0
		rd.w.WriteHeader(status)
	}
}

// flush sends what was written so far, the head at least. A writer that can not flush sends what it has when it is full.
func (rd *read) flush() {
	rd.release()
	_ = http.NewResponseController(rd.w).Flush()
}

// write sends body bytes and counts them. An error means that the client is gone.
func (rd *read) write(b []byte) bool {
	rd.release()
	n, err := rd.w.Write(b)
	rd.ev.Bytes += int64(n)
	if err != nil {
		rd.ev.ClientGone = true
	}
	return err == nil
}

// sendBody writes a part of a stored body. A body that can not be opened any more breaks the answer off.
func (rd *read) sendBody(rec *Record, start, length int64) {
	if rd.r.Method == http.MethodHead || length == 0 {
		return
	}
	if b, ok := rec.Body.Bytes(); ok {
		rd.write(b[start : start+length])
		return
	}
	if !rd.opened(rec) {
		rd.abort(errBodyLost)
	}
	if _, err := rd.source.Seek(start, io.SeekStart); err != nil {
		rd.abort(err)
	}
	n, err := io.CopyN(rd.w, telling(rd.source), length)
	rd.ev.Bytes += n
	rd.sent(err)
}

// sent ends an answer of which a part could not be sent: if that could be read, the client took no more.
func (rd *read) sent(err error) {
	if err == nil {
		return
	}
	_, file := errors.AsType[*fs.PathError](err)
	rd.ev.ClientGone = !file && !errors.Is(err, errBodyLost) && err != io.EOF
	rd.abort(err)
}

// telling returns src with errors that say that they are its own. An *os.File's do, and it must stay one: net/http uses sendfile then.
func telling(src io.Reader) io.Reader {
	if _, file := src.(*os.File); file {
		return src
	}
	return unreadable{src}
}

type unreadable struct{ src io.Reader }

// Read reads.
func (u unreadable) Read(p []byte) (int, error) {
	n, err := u.src.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", errBodyLost, err)
	}
	return n, err
}

var errBodyLost = errors.New("cache: stored body can not be read")

// abort breaks the answer off so that the client sees it is not whole: RFC 9112 §8. What there is of it is sent: a connection that
// closes without a word could mean anything.
func (rd *read) abort(err error) {
	rd.ev.Err = err
	rd.flush()
	panic(http.ErrAbortHandler)
}

// brokenOff ends an answer whose body broke off at its source: as any failure is answered if nothing was sent yet, else by abort.
func (rd *read) brokenOff(err error) {
	if rd.held == 0 {
		rd.abort(err)
	}
	rd.held, rd.holding = 0, false
	clear(rd.w.Header())
	rd.status.Stored, rd.status.HasTTL = false, false
	rd.fail(err, policy.ReasonOriginFailed)
}

// refuse answers for the cache itself.
func (rd *read) refuse(status int, why policy.Reason, err error) {
	rd.ev.Err = err
	rd.reject(status, why, ResultRefused)
}

// reject sends a status of the cache's own making with a short fixed text; the cause goes to the observer only.
func (rd *read) reject(status int, why policy.Reason, result Result) {
	rd.ev.Result, rd.ev.Reason = result, why
	h := rd.w.Header()
	clear(h)
	rd.status.Detail = why.String()
	policy.AddCacheStatus(h, &rd.status)
	text := strconv.Itoa(status) + " " + http.StatusText(status) + "\n"
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	rd.dontWait()
	rd.writeHeader(status)
	if rd.r.Method != http.MethodHead {
		rd.write([]byte(text))
	}
}

// stream sends a response whose body may still be arriving. False means that it can not be had from the start any more.
func (rd *read) stream(fl *flight) bool {
	h := &fl.head
	body := rd.placeIn(fl)
	if body == nil {
		return false
	}
	defer body.close()
	if err := h.spool.broken(); err != nil {
		rd.fail(err, policy.ReasonOriginFailed)
		return true
	}
	rd.ev.Result, rd.ev.Reason = resultOf(rd.collapsed, ResultMiss), rd.reasonOf(h)
	out := rd.w.Header()
	copyHeader(out, h.header)
	if rd.collapsed {
		for _, name := range h.admission.Strip {
			out.Del(name)
		}
	}
	rd.status.Stored = h.admission.Store && !h.failed
	rd.setTTL(h)
	policy.AddCacheStatus(out, &rd.status)
	if !h.failed && rd.answeredCondition(h.status, out, h.admission.Life.BornAt) {
		if h.length >= 0 && h.length <= smallBody {
			_ = http.NewResponseController(rd.w).Flush()
			rd.settled(body)
		}
		return true
	}
	start, length := int64(0), h.length
	rd.holding = true
	if h.status == http.StatusOK && rd.req.Range && h.length >= 0 {
		var done bool
		if start, length, done = rd.rangeOfArriving(h.length); done {
			rd.release()
			return true
		}
	} else {
		rd.announceTrailer(h.trailer)
		rd.writeHeader(h.status)
	}
	if rd.r.Method == http.MethodHead {
		rd.release()
		return true
	}
	if rd.follows(body, start, length) {
		rd.release()
		rd.sendTrailer(h.spool.trailerFields())
	}
	return true
}

// placeIn returns this reader's place at the start of the body, nil if it can not be had any more.
func (rd *read) placeIn(fl *flight) *spoolReader {
	if rd.own == fl {
		if place := fl.takePlace(); place != nil {
			return place
		}
	}
	place, _ := fl.head.spool.reader()
	return place
}

// reasonOf is why this request went to the origin; a response that can not be stored says so itself.
func (rd *read) reasonOf(h *head) policy.Reason {
	if !h.admission.Store && h.admission.Reason != 0 {
		rd.status.Detail = h.admission.Reason.String()
	}
	return rd.ev.Reason
}

func (rd *read) setTTL(h *head) {
	if rd.status.Stored {
		rd.status.TTL, rd.status.HasTTL = policy.Seconds(h.admission.Life.TTL(time.Now())), true
	}
}

// copyHeader copies src into dst, all values in one array.
func copyHeader(dst, src http.Header) {
	n := 0
	for _, values := range src {
		n += len(values)
	}
	backing := make([]string, 0, n)
	for name, values := range src {
		start := len(backing)
		backing = append(backing, values...)
		dst[name] = backing[start:len(backing):len(backing)]
	}
}

// follows copies a body as it arrives: length bytes from start, or all of it for a negative length. It flushes whenever it has caught up.
// False means that the body was broken before anything was sent, and that this was answered.
func (rd *read) follows(body *spoolReader, start, length int64) bool {
	skip, left := start, length
	for left != 0 {
		b, err := body.next()
		switch {
		case err == io.EOF:
			return true
		case err != nil:
			rd.brokenOff(err)
			return false
		case b == nil:
			rd.flush()
			if err := body.wait(rd.ctx); err != nil {
				rd.leaveEarly(err)
			}
			continue
		}
		b = cut(b, &skip, &left)
		if len(b) > 0 && !rd.write(b) {
			rd.leaveEarly(context.Canceled)
		}
	}
	if start == 0 {
		rd.settled(body)
	}
	return true
}

// settled waits until a body that is all there is committed too: a client that comes back at once then finds the record. A commit that was left to
// this reader is done here, behind the answer.
func (rd *read) settled(body *spoolReader) {
	rd.answered = rd.ctx.Err() == nil
	if fl := rd.own; fl != nil && fl.whole != nil {
		fl.prompt.SendNow()
		fl.completeHere()
		return
	}
	for {
		if b, err := body.next(); err != nil || len(b) > 0 || body.wait(rd.ctx) != nil {
			return
		}
	}
}

// cut drops the bytes of b that are to be skipped and those beyond what is left.
func cut(b []byte, skip, left *int64) []byte {
	n := min(*skip, int64(len(b)))
	*skip -= n
	b = b[n:]
	if *left >= 0 {
		b = b[:min(*left, int64(len(b)))]
		*left -= int64(len(b))
	}
	return b
}

// leaveEarly ends an answer whose client is gone.
func (rd *read) leaveEarly(err error) {
	rd.ev.ClientGone = errors.Is(err, context.Canceled) || rd.ctx.Err() != nil
	panic(http.ErrAbortHandler)
}

// takeOver sends an unshared response: this reader reads the origin's body itself, at its own pace.
func (rd *read) takeOver(fl *flight) bool {
	body := fl.takeBody()
	if body == nil {
		return false
	}
	defer body.Close()
	if !fl.here {
		defer context.AfterFunc(rd.ctx, func() { fl.stop(context.Canceled) })()
	}
	h := &fl.head
	rd.ev.Result, rd.ev.Reason = ResultMiss, h.admission.Reason
	rd.status.Detail = h.admission.Reason.String()
	out := rd.w.Header()
	copyHeader(out, h.header)
	policy.AddCacheStatus(out, &rd.status)
	rd.announceTrailer(h.trailer)
	rd.holding = true
	rd.writeHeader(h.status)
	if err := rd.copyThrough(body, h.length < 0); err != nil {
		fl.failed(err, time.Now())
		rd.brokenOff(err)
		return true
	}
	rd.release()
	fl.dropReplaced(h)
	rd.sendTrailer(fl.tail)
	return true
}

// copyThrough copies a body, flushing each read if its length is unknown, so that events reach the client at once. The error is the body's.
func (rd *read) copyThrough(body io.Reader, flushing bool) error {
	if rd.r.Method == http.MethodHead {
		return nil
	}
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for {
		n, err := body.Read(*buf)
		if n > 0 {
			if !rd.write((*buf)[:n]) {
				rd.leaveEarly(context.Canceled)
			}
			if flushing {
				rd.flush()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
