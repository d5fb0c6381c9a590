package cache

import (
	"net/http"

	"github.com/swrproxy/swrproxy/policy"
)

// variantMark separates a primary key from the variant part: no part of a primary key begins with 0xff (see policy.Key.Append).
const variantMark = "\x00\xff"

// found is the result of a look-up.
type found struct {
	// rec is the record chosen, nil if there is none; life is its life after soft invalidations.
	rec  *Record
	life policy.Life
	// spec are the fields that the newest response of this key varies on; known tells an empty spec from no knowledge.
	spec  []string
	known bool
	// blank means that nothing valid stands under the primary key, no index either.
	blank bool
	// why says what was missing, when rec is nil.
	why policy.Reason
}

// lookup finds the record for a primary key and a request's header: RFC 9111 §4.1. Where several stored responses match, the
// most recent wins.
func (c *Cache) lookup(s *policy.Settings, primary string, h http.Header) found {
	rec, life, ok := c.get(primary)
	if !ok {
		return found{why: policy.ReasonKeyMiss, blank: true}
	}
	if rec.Index == nil {
		return found{rec: rec, life: life}
	}
	return c.lookupVariant(s, primary, rec.Index, h)
}

func (c *Cache) lookupVariant(s *policy.Settings, primary string, x *Index, h http.Header) found {
	f := found{why: policy.ReasonVaryMiss}
	if len(x.Specs) > 0 {
		f.spec, f.known = x.Specs[0], true
	}
	for _, spec := range x.Specs {
		f.consider(c.get(variantKey(primary, spec, h)))
	}
	if f.rec == nil && s.SelectLanguage {
		c.lookupLanguage(&f, primary, x, h)
	}
	return f
}

// lookupLanguage tries the variants by the language that the request likes best.
func (c *Cache) lookupLanguage(f *found, primary string, x *Index, h http.Header) {
	language, ok := policy.PreferredLanguage(h)
	if !ok {
		return
	}
	for _, spec := range x.Specs {
		if key, ok := languageKey(primary, spec, h, language); ok {
			f.consider(c.get(key))
		}
	}
}

// consider takes a record if it is the first or more recent than the one at hand: RFC 9111 §4.1.
func (f *found) consider(rec *Record, life policy.Life, ok bool) {
	if ok && (f.rec == nil || rec.moreRecent(f.rec)) {
		f.rec, f.life = rec, life
	}
}

// moreRecent compares two responses by their Date; of the same second the one of the later fill is more recent. Their lives do not tell: a soft purge makes
// one of a short lifetime look younger.
func (r *Record) moreRecent(than *Record) bool {
	mine, errMine := http.ParseTime(r.Fields.Get("Date"))
	its, errIts := http.ParseTime(than.Fields.Get("Date"))
	if errMine == nil && errIts == nil && !mine.Equal(its) {
		return mine.After(its)
	}
	return r.Token > than.Token
}

// get returns the record of a full key unless an invalidation took it.
func (c *Cache) get(key string) (*Record, policy.Life, bool) { return c.getBy(c.store.Get, key) }

// getNearby is get for who must not wait.
func (c *Cache) getNearby(key string) (*Record, policy.Life, bool) { return c.getBy(c.nearby, key) }

func (c *Cache) getBy(look func(string) (*Record, bool), key string) (*Record, policy.Life, bool) {
	rec, ok := look(key)
	if !ok {
		return nil, policy.Life{}, false
	}
	life, ok := c.w.log.apply(rec)
	return rec, life, ok
}

// variantKey is the full key of the variant that a request with header h selects, if responses vary on spec.
func variantKey(primary string, spec []string, h http.Header) string {
	return string(appendVariantKey(keyRoom(primary), primary, spec, h))
}

// appendVariantKey is variantKey in memory that the caller has.
func appendVariantKey(dst []byte, primary string, spec []string, h http.Header) []byte {
	return policy.AppendVariant(appendSpec(dst, primary, spec), spec, h)
}

// languageKey is the second key of a variant, by the language that it is in; see policy.AppendLanguage.
func languageKey(primary string, spec []string, h http.Header, language string) (string, bool) {
	b, ok := policy.AppendLanguage(appendSpec(keyRoom(primary), primary, spec), spec, h, language)
	return string(b), ok
}

// keyRoom is room for a usual variant key.
func keyRoom(primary string) []byte { return make([]byte, 0, len(primary)+64) }

// appendSpec appends what all variant keys of one primary key and spec begin with.
func appendSpec(dst []byte, primary string, spec []string) []byte {
	dst = append(append(dst, primary...), variantMark...)
	for _, name := range spec {
		dst = append(append(dst, name...), ',')
	}
	return append(dst, variantMark...)
}
