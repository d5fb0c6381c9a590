package policy

import (
	"net/http"

	"github.com/dunglas/httpsfv"
)

// defaultTargets are the targeted fields that apply when Settings.Targets is nil (RFC 9213 §2.2, §3.1).
var defaultTargets = []string{"Cdn-Cache-Control", "Swrproxy-Cache-Control"}

// readControl returns the control that applies to this cache: the first targeted field in the list that is present,
// valid and not empty, else Cache-Control (RFC 9213 §2.2).
func (s *Settings) readControl(h http.Header) responseControl {
	targets := s.Targets
	if targets == nil {
		targets = defaultTargets
	}
	for _, name := range targets {
		lines := h[http.CanonicalHeaderKey(name)]
		if len(lines) == 0 {
			continue
		}
		if c, ok := readTargeted(lines); ok {
			return c
		}
	}
	return readCacheControl(h["Cache-Control"])
}

// readTargeted parses a targeted field, which is a Dictionary of Structured Fields (RFC 9213 §2.1). ok is false when
// the field is to be ignored as a whole: it does not parse, it is empty, or a known directive has a value of the
// wrong type.
//
// httpsfv is as strict as RFC 9651 §4.2 asks, with one exception that does no harm: it takes tabs as well as spaces
// at the end of a field.
func readTargeted(lines []string) (c responseControl, ok bool) {
	dict, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil || len(dict.Names()) == 0 {
		return c, false
	}
	for _, name := range dict.Names() {
		member, _ := dict.Get(name)
		if !c.targetedDirective(name, member) {
			return responseControl{}, false
		}
	}
	c.targeted = true
	return c, true
}

// targetedDirective takes one member; false means that its type is wrong. Unknown directives are ignored whatever
// their type, and so are parameters (RFC 9213 §2.1).
func (c *responseControl) targetedDirective(name string, m httpsfv.Member) bool {
	item, isItem := m.(httpsfv.Item)
	switch name {
	case "max-age", "s-maxage", "stale-while-revalidate", "stale-if-error":
		n, isInt := item.Value.(int64)
		if !isItem || !isInt {
			return false
		}
		narrow(c.span(name), clampSeconds(n))
	case "no-store", "public", "must-revalidate", "proxy-revalidate", "must-understand", "immutable", "no-transform":
		on, isBool := item.Value.(bool)
		if !isItem || !isBool {
			return false
		}
		if on {
			c.directive(name, "", false)
		}
	case "no-cache", "private":
		switch v := item.Value.(type) {
		case bool:
			if v {
				c.directive(name, "", false)
			}
		case string:
			c.directive(name, v, true)
		default:
			return false
		}
	}
	return true
}

func (c *responseControl) span(name string) *Span {
	switch name {
	case "max-age":
		return &c.maxAge
	case "s-maxage":
		return &c.sMaxAge
	case "stale-while-revalidate":
		return &c.staleWhileRevalidate
	default:
		return &c.staleIfError
	}
}
