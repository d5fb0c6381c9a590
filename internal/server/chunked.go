package server

// chunkScan follows a chunked body (RFC 9112 §7.1) byte by byte to find its end, and refuses what parsers disagree on: bare
// line feeds, blanks around sizes, folded trailer lines. It changes nothing.
type chunkScan struct {
	state chunkState
	left  int64 // bytes left of the present chunk's data
	line  int   // bytes of the present line so far, or hex digits of the size
}

// chunkState is the place inside a chunked body. A closed enum.
type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkExtension
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	chunkTrailerStart
	chunkTrailerName
	chunkTrailerValue
	chunkTrailerLF
	chunkEndLF
	chunkDone
)

// maxChunkLine bounds one line of framing, as net/http does.
const maxChunkLine = 4096

// advance consumes b up to the body's end and returns how much that was. ok is false at the first wrong byte.
func (s *chunkScan) advance(b []byte) (n int, ok bool) {
	for n < len(b) && s.state != chunkDone {
		if s.state == chunkData {
			k := min(int64(len(b)-n), s.left)
			n += int(k)
			if s.left -= k; s.left == 0 {
				s.state = chunkDataCR
			}
			continue
		}
		if !s.step(b[n]) {
			return n, false
		}
		n++
	}
	return n, true
}

// spoiler returns what makes net/http refuse the body at once when it comes right behind what was scanned without fault.
func (s *chunkScan) spoiler() string {
	switch s.state {
	case chunkTrailerStart, chunkTrailerName, chunkEndLF:
		return "Z\r\n\r\n" // a line without a colon
	case chunkTrailerValue:
		return "\r\nZ\r\n\r\n"
	case chunkTrailerLF:
		return "\nZ\r\n\r\n"
	default:
		return "\rZ\n" // a carriage return within a line
	}
}

func (s *chunkScan) done() bool { return s.state == chunkDone }

// step takes one byte of framing.
func (s *chunkScan) step(c byte) bool {
	if s.line++; s.line > maxChunkLine {
		return false
	}
	switch s.state {
	case chunkSize:
		return s.sizeByte(c)
	case chunkExtension:
		return s.untilCR(c, chunkSizeLF)
	case chunkSizeLF:
		next := chunkData
		if s.left == 0 {
			next = chunkTrailerStart
		}
		return s.expect(c, '\n', next)
	case chunkDataCR:
		return s.expect(c, '\r', chunkDataLF)
	case chunkDataLF:
		return s.expect(c, '\n', chunkSize)
	default:
		return s.trailerByte(c)
	}
}

func (s *chunkScan) sizeByte(c byte) bool {
	if d, ok := hexDigit(c); ok {
		s.left = s.left<<4 | int64(d)
		return s.line <= 15 // 60 bits are more than anybody sends and cannot overflow
	}
	if s.line == 1 { // no digit yet
		return false
	}
	if c == ';' {
		s.state = chunkExtension
		return true
	}
	return s.expectOnly(c, '\r', chunkSizeLF)
}

func (s *chunkScan) trailerByte(c byte) bool {
	switch s.state {
	case chunkTrailerStart:
		if c == '\r' {
			s.state = chunkEndLF
			return true
		}
		s.state = chunkTrailerName
		return isToken[c]
	case chunkTrailerName:
		if c == ':' {
			s.state = chunkTrailerValue
			return true
		}
		return isToken[c]
	case chunkTrailerValue:
		return s.untilCR(c, chunkTrailerLF)
	case chunkTrailerLF:
		return s.expect(c, '\n', chunkTrailerStart)
	case chunkEndLF:
		return s.expect(c, '\n', chunkDone)
	default:
		return false
	}
}

// untilCR stays in the present state for bytes that a value may have and goes on at a carriage return.
func (s *chunkScan) untilCR(c byte, next chunkState) bool {
	if isValue[c] {
		return true
	}
	return s.expectOnly(c, '\r', next)
}

// expect takes exactly want and begins a new line.
func (s *chunkScan) expect(c, want byte, next chunkState) bool {
	s.line = 0
	return s.expectOnly(c, want, next)
}

func (s *chunkScan) expectOnly(c, want byte, next chunkState) bool {
	if c != want {
		return false // and the body is never done
	}
	s.state = next
	return true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}
