package policy

import (
	"net/http"
	"slices"
	"time"
)

// Admission says what may be done with a response. The zero value refuses everything.
type Admission struct {
	// Store reports that the response may be stored, and that a stored copy would be of use (RFC 9111 §3).
	Store bool
	// Shareable reports that readers who were already waiting when the response came may have it (RFC 9111 §4). It
	// can be true without Store: a response that is stale on arrival and has no validator serves those who wait and
	// nobody later. It can be false with Store: a no-cache response has to be validated for each reader.
	Shareable bool
	// Reason says why it is not stored; 0 when it is.
	Reason Reason
	// Life is how long a stored copy may be used.
	Life Life
	// Strip are canonical names of fields that are not to be stored, nor sent to readers who only share the response:
	// those that qualified no-cache and private list, Set-Cookie when it is stripped, and the fields of a proxy's own
	// authentication (RFC 9111 §3.1). Fields that Connection lists and other hop-by-hop fields are removed elsewhere,
	// before a response comes here.
	Strip []string
}

// Admit judges a complete response head that came for req (RFC 9111 §3). A 304 is to be merged with Freshen first and
// judged as the status of the stored response. s may be nil for the defaults. h is not changed.
func Admit(s *Settings, req *Request, status int, h http.Header, requestAt, responseAt time.Time) Admission {
	if s == nil {
		s = &zeroSettings
	}
	c := s.readControl(h)
	strip := stripped(s, &c, h)
	if r := s.refuse(&c, req, status, h, strip); r != 0 {
		return Admission{Reason: r}
	}
	f := s.lifetime(&c, status, h, responseAt)
	switch {
	case req.Method == http.MethodPost && !(f.stated && f.d > 0):
		return Admission{Reason: ReasonMethod}
	case !f.stated && !c.public && !cacheableByDefault(status):
		// RFC 9111 §3: nothing says that a response with this status may be stored at all.
		return Admission{Reason: ReasonNoFreshness}
	}
	adm := Admission{Strip: strip, Life: s.life(&c, f, status, h, requestAt, responseAt)}
	adm.Store = useful(&adm.Life, h, responseAt)
	adm.Shareable = !adm.Life.has(NoCache) && (f.d > 0 || f.control || c.public)
	if !adm.Store {
		adm.Reason = ReasonNoFreshness
	}
	return adm
}

// refuse returns the first reason not to store a response, 0 if there is none. Each is also a reason not to share it.
func (s *Settings) refuse(c *responseControl, req *Request, status int, h http.Header, strip []string) Reason {
	if r := s.refuseKind(c, req, status); r != 0 {
		return r
	}
	switch {
	case c.noStore && !c.mustUnderstand:
		return ReasonNoStore
	case c.private:
		return ReasonPrivate
	case req.Authorization && !s.Authorized && !c.public && !c.sMaxAge.Set && !c.mustRevalidate:
		return ReasonAuthorization
	case s.refusesCookie(req, h, strip):
		return ReasonSetCookie
	}
	if _, star := VaryOf(h); star {
		return ReasonVaryStar
	}
	return 0
}

// refuseKind judges method, status and the request's own wish (RFC 9111 §3). A status above 599 is none (RFC 9110 §15).
func (s *Settings) refuseKind(c *responseControl, req *Request, status int) Reason {
	switch {
	case req.Method == http.MethodPost && s.StorePOST && status == http.StatusOK:
	case req.Method != http.MethodGet:
		return ReasonMethod
	case req.HasBody:
		return ReasonBody
	}
	switch {
	case req.Control.NoStore:
		return ReasonRequestNoStore
	case status == http.StatusPartialContent && !s.StorePartial:
		return ReasonPartial
	case status < 200, status > 599, status == http.StatusNotModified, status == http.StatusRequestedRangeNotSatisfiable,
		c.mustUnderstand && !understood(status), s.StatusTTL[status] < 0:
		return ReasonStatus
	}
	return 0
}

// refusesCookie applies Settings.SetCookie. A lifetime that the rule forces on a response is worse: the origin did
// not mean it to be shared. So with Override a cookie that answers another cookie is refused unless cookies are kept
// on purpose.
func (s *Settings) refusesCookie(req *Request, h http.Header, strip []string) bool {
	if len(h["Set-Cookie"]) == 0 && len(h["Set-Cookie2"]) == 0 {
		return false
	}
	switch s.SetCookie {
	case KeepSetCookie:
		return false
	case StripSetCookie:
		return s.Override && s.TTL > 0 && req.Cookie
	}
	return !slices.Contains(strip, "Set-Cookie")
}

// stripped lists the fields that are not to be stored.
func stripped(s *Settings, c *responseControl, h http.Header) []string {
	strip := slices.Clone(c.fields)
	if s.SetCookie == StripSetCookie {
		strip = append(strip, "Set-Cookie", "Set-Cookie2")
	}
	for _, name := range [...]string{"Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization"} {
		if len(h[name]) > 0 {
			strip = append(strip, name)
		}
	}
	if len(strip) == 0 {
		return nil
	}
	return sortedSet(strip)
}

// useful reports that a stored copy could ever be used: it is fresh, or stale use is allowed, or it can be validated.
func useful(l *Life, h http.Header, now time.Time) bool {
	if len(h["Etag"]) > 0 || len(h["Last-Modified"]) > 0 {
		return true
	}
	usable := l.FreshFor + max(l.StaleFor, l.ErrorFor)
	return !l.has(NoCache) && l.Age(now) < usable
}
