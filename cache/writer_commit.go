package cache

import (
	"net/http"
	"slices"

	"github.com/swrproxy/swrproxy/policy"
)

// change is one response on its way into the store.
type change struct {
	rec *Record // under its primary key; the writer gives it its token
	// vary are the fields that the response varies on, asked the request's fields, which choose the variant.
	vary     []string
	asked    http.Header
	settings *policy.Settings
	// base is the record that the response confirmed, nil if it brought a body of its own.
	base *Record
	// blank means that nothing stood under the primary key when its version was this.
	blank   bool
	version uint64
}

// commit stores a response by an open ticket.
func (w *writer) commit(t *ticket, ch *change) (result PutResult) {
	if t.void.Load() {
		return PutOlder
	}
	ch.rec.Token = t.token
	primary := ch.rec.Primary
	w.locked(primary, func() {
		result = w.place(ch, w.standing(ch))
		w.commits[stripe(primary)].Add(1)
	})
	return result
}

// update replaces a stored response by one that a response without a body confirmed: RFC 9111 §4.3.5. It does so only where base still stands.
func (w *writer) update(t *ticket, base, rec *Record) (result PutResult) {
	if t.void.Load() {
		return PutOlder
	}
	rec.Token = t.token
	w.locked(base.Primary, func() {
		now, ok := w.store.Get(base.Key)
		if !ok || now.Token != base.Token || w.taken(now) {
			result = PutOlder
			return
		}
		result = w.put(rec)
		w.commits[stripe(base.Primary)].Add(1)
	})
	return result
}

// standing is the valid record under the change's primary key, nil if there is none. It does not look again for one that was not there before, if
// nothing was committed since. Called under the key's commit lock, as all that follows.
func (w *writer) standing(ch *change) *Record {
	if ch.blank && w.version(ch.rec.Primary) == ch.version {
		return nil
	}
	old, ok := w.store.Get(ch.rec.Primary)
	if !ok || w.taken(old) {
		return nil
	}
	return old
}

// place puts a record under the primary key while responses of the key do not vary, else as a variant that the key's index lists. old is what stands
// under the primary key. If Vary changed, what was confirmed must not stay behind under its old key: RFC 9111 §4.3.4.
func (w *writer) place(ch *change, old *Record) PutResult {
	if ch.moves() {
		w.store.Delete(ch.base.Key, ch.rec.Token)
		if old != nil && old.Key == ch.base.Key {
			old = nil
		}
	}
	switch {
	case len(ch.vary) == 0 && (old == nil || old.Index == nil):
		return w.put(ch.rec)
	case old == nil:
		return w.placeVariant(ch, nil, &Index{})
	case old.Index == nil:
		return w.placeVariant(ch, old, w.indexOver(old))
	default:
		return w.placeVariant(ch, old, old.Index)
	}
}

// moves tells whether the response varies on other fields than the base did.
func (ch *change) moves() bool {
	if ch.base == nil {
		return false
	}
	before, _ := policy.VaryOf(ch.base.Fields.Header())
	return !slices.Equal(before, ch.vary)
}

// indexOver moves a record that stands under the primary key aside, as the variant of an empty spec, and returns an index of it.
func (w *writer) indexOver(old *Record) *Index {
	moved := *old
	moved.Key = variantKey(old.Primary, nil, nil)
	if w.put(&moved) != PutStored {
		return &Index{}
	}
	return &Index{Specs: [][]string{{}}, Variants: []string{moved.Key}}
}

func (w *writer) placeVariant(ch *change, old *Record, x *Index) PutResult {
	rec := ch.rec
	rec.Key = variantKey(rec.Primary, ch.vary, ch.asked)
	if result := w.put(rec); result != PutStored {
		return result
	}
	x, dropped := x.with(ch.vary, rec.Key, w.variants)
	if key, ok := languageKey(rec.Primary, ch.vary, ch.asked, rec.Fields.Get("Content-Language")); ok && ch.settings.SelectLanguage {
		again := *rec
		again.Key = key
		w.put(&again)
		var more []string
		x, more = x.with(ch.vary, key, w.variants)
		dropped = append(dropped, more...)
	}
	w.dropVariants(rec, dropped)
	token := rec.Token
	if old != nil {
		token = max(token, old.Token) // whichever variant was the latest
	}
	return w.put(&Record{Key: rec.Primary, Primary: rec.Primary, Token: token, StoredAt: rec.StoredAt, Life: rec.Life, Index: x})
}

func (w *writer) dropVariants(rec *Record, keys []string) {
	for _, key := range keys {
		w.store.Delete(key, rec.Token)
		w.noted(&Note{Kind: NoteVariants, Key: rec.Primary, Text: "bound of variants reached, oldest dropped"})
	}
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
