package cache

import (
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// errOvertaken is the reason of a refused commit.
var errOvertaken = errors.New("cache: overtaken by an invalidation or a newer fill")

var stripeSeed = maphash.MakeSeed()

// notStored are fields of a response that a record does not keep: each answer computes its own. So it does with Content-Range, where
// that means something: in a 206.
var notStored = []string{"Age", "Content-Length"}

// keptFields are the fields of a response that a record keeps.
func keptFields(status int, h http.Header, adm policy.Admission) Fields {
	return fieldsWithout(h, func(name string) bool {
		return slices.Contains(notStored, name) || status == http.StatusPartialContent && name == "Content-Range" ||
			slices.ContainsFunc(adm.Strip, func(s string) bool { return http.CanonicalHeaderKey(s) == name })
	})
}

// recordOf makes the record of a response, without its body.
func (fl *flight) recordOf(status int, h http.Header, adm policy.Admission, now time.Time) *Record {
	return &Record{
		Key:      fl.primary,
		Primary:  fl.primary,
		Token:    fl.token,
		StoredAt: now.UTC().Round(0),
		Status:   status,
		Fields:   keptFields(status, h, adm),
		Life:     adm.Life,
		Tags:     fl.tags(h),
	}
}

// tags are what invalidations by tag and by cache group compare.
func (fl *flight) tags(h http.Header) []string {
	return append(policy.Tags(h, fl.c.tags), groupTags(fl.target, policy.CacheGroups(h, "Cache-Groups"))...)
}

// commit publishes rec unless something newer overtook it: an invalidation, a forced refresh, a younger fill.
func (fl *flight) commit(rec *Record, h http.Header) {
	c := fl.c
	if fl.lease != nil {
		if err := fl.mayCommit(); err != nil {
			c.notCommitted(fl, err)
			return
		}
	}
	life, ok := c.log.apply(rec)
	if !ok {
		c.notCommitted(fl, errOvertaken)
		return
	}
	rec.Life = life
	vary, star := policy.VaryOf(h)
	if star {
		return
	}
	var result PutResult
	withLock(&c.commits[stripe(fl.primary)], func() {
		result = c.put(&fl.rule.settings, rec, fl.standing(rec.Primary), vary, fl.req.Header)
		if result == PutStored {
			result = c.recheck(rec)
		}
		c.committed[stripe(fl.primary)].Add(1)
	})
	switch result {
	case PutStored:
		fl.tellSuccessor()
	case PutOlder:
		c.notCommitted(fl, errOvertaken)
	case PutRefused:
		c.obs.Noted(&Note{Kind: NoteStore, Key: fl.url(), Text: "store refused the record"})
	}
}

// mayCommit asks the lease. Among the fills of one process a late result is not wasted: who only outlived its tenure may commit although
// somebody newer holds the key by now; the store compares tokens. Otherwise an origin slower than the tenure would never be cached.
func (fl *flight) mayCommit() error {
	err := fl.lease.CheckCommit()
	if fl.c.local && errors.Is(err, fill.ErrLeaseLost) && errors.Is(context.Cause(fl.lease.Context()), fill.ErrTenureOver) {
		return nil
	}
	return err
}

// tellSuccessor wakes those who wait for a newer fill of the same key: a late result has come that may do for them.
func (fl *flight) tellSuccessor() {
	if next := fl.c.flights.successor(fl); next != nil && next.lease != nil {
		next.lease.Announce()
	}
}

// recheck applies an invalidation that came between the first look at the log and the put. Its entry stays in the log for as long as this
// fill runs, so it can not be missed.
func (c *Cache) recheck(rec *Record) PutResult {
	life, ok := c.log.apply(rec)
	switch {
	case !ok:
		c.store.Delete(rec.Key, rec.Token)
		return PutOlder
	case life != rec.Life:
		c.expire(rec.Key)
	}
	return PutStored
}

func (c *Cache) notCommitted(fl *flight, err error) {
	c.obs.Noted(&Note{Kind: NoteCommit, Key: fl.url(), Text: "result of the fill dropped", Err: err})
}

func withLock(mu *sync.Mutex, f func()) {
	mu.Lock()
	defer mu.Unlock()
	f()
}

func stripe(primary string) uint64 {
	return maphash.String(stripeSeed, primary) % commitStripes
}

// standing is the record under the primary key, nil if there is none. Called under the key's commit lock. It does not look again for one that was not
// there before the fill, if nothing was committed since.
func (fl *flight) standing(primary string) *Record {
	if fl.blank && fl.c.committed[stripe(primary)].Load() == fl.committed {
		return nil
	}
	old, ok := fl.c.store.Get(primary)
	if !ok {
		return nil
	}
	return old
}

// put stores rec at its place: under the primary key while responses of the key do not vary, else as a variant that the key's
// index lists. old is what stands under the primary key. Called under the key's commit lock.
func (c *Cache) put(s *policy.Settings, rec, old *Record, vary []string, h http.Header) PutResult {
	switch {
	case len(vary) == 0 && (old == nil || old.Index == nil):
		return c.store.Put(rec)
	case old != nil && old.Index == nil:
		return c.putVariant(s, rec, c.indexOver(old), vary, h)
	case old != nil:
		return c.putVariant(s, rec, old.Index, vary, h)
	default:
		return c.putVariant(s, rec, &Index{}, vary, h)
	}
}

// indexOver moves a record that stands under the primary key aside, as the variant of an empty spec, and returns an index of it.
func (c *Cache) indexOver(old *Record) *Index {
	moved := *old
	moved.Key = variantKey(old.Primary, nil, nil)
	if c.store.Put(&moved) != PutStored {
		return &Index{}
	}
	return &Index{Specs: [][]string{{}}, Variants: []string{moved.Key}}
}

func (c *Cache) putVariant(s *policy.Settings, rec *Record, x *Index, vary []string, h http.Header) PutResult {
	rec.Key = variantKey(rec.Primary, vary, h)
	if result := c.store.Put(rec); result != PutStored {
		return result
	}
	x, dropped := x.with(vary, rec.Key, c.object.Variants)
	if key, ok := languageKey(rec.Primary, vary, h, rec.Fields.Get("Content-Language")); ok && s.SelectLanguage {
		again := *rec
		again.Key = key
		c.store.Put(&again)
		var more []string
		x, more = x.with(vary, key, c.object.Variants)
		dropped = append(dropped, more...)
	}
	c.dropVariants(rec, dropped)
	return c.store.Put(&Record{
		Key: rec.Primary, Primary: rec.Primary, Token: c.indexToken(rec), StoredAt: rec.StoredAt, Life: rec.Life, Index: x,
	})
}

func (c *Cache) dropVariants(rec *Record, keys []string) {
	for _, key := range keys {
		c.store.Delete(key, rec.Token)
		c.obs.Noted(&Note{Kind: NoteVariants, Key: rec.Primary, Text: "bound of variants reached, oldest dropped"})
	}
}

// indexToken is the token of a key's index: never below that of the index it replaces, whichever variant was the latest.
func (c *Cache) indexToken(rec *Record) uint64 {
	if old, ok := c.store.Get(rec.Primary); ok {
		return max(old.Token, rec.Token)
	}
	return rec.Token
}

// maxSpecs bounds the distinct Vary lists of one key: a look-up tries each.
const maxSpecs = 8

// with returns x with spec and key in front, and the variants that had to go for it.
func (x *Index) with(spec []string, key string, limit int) (next *Index, dropped []string) {
	next = &Index{
		Specs:    append([][]string{spec}, deleteFirst(x.Specs, func(s []string) bool { return slices.Equal(s, spec) })...),
		Variants: append([]string{key}, deleteFirst(x.Variants, func(v string) bool { return v == key })...),
	}
	if len(next.Specs) > maxSpecs {
		next.Specs = next.Specs[:maxSpecs]
	}
	if len(next.Variants) > limit {
		dropped = next.Variants[limit:]
		next.Variants = next.Variants[:limit:limit]
	}
	return next, dropped
}

func deleteFirst[T any](list []T, is func(T) bool) []T {
	i := slices.IndexFunc(list, is)
	if i < 0 {
		return list
	}
	return append(slices.Clone(list[:i]), list[i+1:]...)
}
