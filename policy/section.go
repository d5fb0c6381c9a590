package policy

// SectionOwn is the section of reasons that no RFC states: they are this cache's own.
const SectionOwn = "own"

// sections are the places that state the reasons' rules.
var sections = [reasonCount]string{
	ReasonFresh:                "RFC 9111 §4.2",
	ReasonStaleWhileRevalidate: "RFC 5861 §3",
	ReasonStaleIfError:         "RFC 5861 §4",
	ReasonMaxStale:             "RFC 9111 §5.2.1.2",
	ReasonExpired:              "RFC 9111 §4.2.4",
	ReasonMustRevalidate:       "RFC 9111 §4.2.4",
	ReasonNoCache:              "RFC 9111 §5.2.2.4",
	ReasonRequestNoCache:       "RFC 9111 §5.2.1.4",
	ReasonRequestMaxAge:        "RFC 9111 §5.2.1.1",
	ReasonRequestMinFresh:      "RFC 9111 §5.2.1.3",
	ReasonRequestMaxStale:      "RFC 9111 §5.2.1.2",
	ReasonRequestNoStore:       "RFC 9111 §5.2.1.5",
	ReasonNoStore:              "RFC 9111 §5.2.2.5",
	ReasonPrivate:              "RFC 9111 §5.2.2.7",
	ReasonSetCookie:            SectionOwn, // RFC 9111 §7.3 leaves it to origins to forbid; here the rule decides
	ReasonAuthorization:        "RFC 9111 §3.5",
	ReasonVaryStar:             "RFC 9111 §4.1",
	ReasonNoFreshness:          "RFC 9111 §3",
	ReasonStatus:               "RFC 9111 §3",
	ReasonMethod:               "RFC 9111 §3",
	ReasonRange:                "RFC 9110 §14.2",
	ReasonBody:                 "RFC 9110 §9.3.1",
	ReasonPartial:              "RFC 9111 §3.3",
	ReasonOnlyIfCached:         "RFC 9111 §5.2.1.7",
	ReasonTooLarge:             SectionOwn,
	ReasonNotShareable:         SectionOwn,
	ReasonKeyMiss:              "RFC 9111 §2",
	ReasonVaryMiss:             "RFC 9111 §4.1",
	ReasonInvalidated:          "RFC 9111 §4.4",
	ReasonUpgrade:              "RFC 9110 §7.8",
	ReasonRule:                 SectionOwn,
	ReasonBadRequest:           "RFC 9110 §15.5.1",
	ReasonRevalidated:          "RFC 9111 §4.3.4",
	ReasonCondition:            "RFC 9110 §13.2.2",
	ReasonOriginFailed:         "RFC 9110 §15.6.3",
	ReasonWaitOver:             SectionOwn,
	ReasonStream:               SectionOwn,
	ReasonNoRoom:               SectionOwn,
	ReasonClosing:              SectionOwn,
}

// Section names the document and section that state the reason's rule, such as "RFC 9111 §4.2.4"; [SectionOwn] for a reason that is this
// cache's own, "" for the zero value.
func (r Reason) Section() string {
	if r >= reasonCount {
		return ""
	}
	return sections[r]
}
