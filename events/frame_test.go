package events

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// Tests of the frame. They hold E1 and E2.

const someTime = int64(1_800_000_000_123_456_789)

var someTerm = Term{0: 1, 15: 0xff}

// sealed makes a message of a body as it is.
func sealed(body string) *Message {
	return &Message{Seq: 9, Kind: MessageLog, Version: FrameVersion, Term: someTerm, Time: someTime, Body: []byte(body)}
}

// frameOf makes a message of events that are all decided at the frame's time.
func frameOf(t testing.TB, actor string, all ...Event) *Message {
	t.Helper()
	var b FrameBuilder
	b.Begin(someTime, actor)
	for i := range all {
		if _, _, err := b.Add(&all[i], someTime); err != nil {
			t.Fatal(err)
		}
	}
	return b.Seal(someTerm)
}

var ready = Event{Kind: KindReady, Instance: "i", Attempt: 1}

// TestWhatIsWrittenReadsBackEqual: any valid events, at any times that rise.
func TestWhatIsWrittenReadsBackEqual(t *testing.T) {
	var b FrameBuilder // reused, as a leader does
	var d Decoded
	compressed := 0
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.Int64Range(1, math.MaxInt64/2).Draw(t, "time")
		actor := rapid.OneOf(rapid.Just(""), someText(MaxText)).Draw(t, "actor")
		n := rapid.SampledFrom([]int{1, 2, 5, 40, 120}).Draw(t, "how many")
		all := rapid.SliceOfN(someEvent(), n, n).Draw(t, "events")
		b.Begin(begin, actor)
		now := begin
		var times []int64
		for i := range all {
			now += rapid.SampledFrom([]int64{0, 0, 1, 999, 1000, 1001, 12_345_678}).Draw(t, "step")
			index, at, err := b.Add(&all[i], now)
			if err != nil || index != uint32(i) {
				t.Fatalf("event %d: index %d, %v", i, index, err)
			}
			if at > now || at <= now-1000 {
				t.Fatalf("decided at %d, in the log at %d: not its microsecond", now, at)
			}
			times = append(times, at)
		}
		if b.Len() != len(all) || b.Time() != begin || b.End() != times[len(times)-1] {
			t.Fatalf("the builder says %d events from %d to %d", b.Len(), b.Time(), b.End())
		}
		m := b.Seal(someTerm)
		if m.Compressed {
			compressed++
		}
		again := b.Seal(someTerm)
		if !bytes.Equal(m.Body, again.Body) {
			t.Fatal("the same events have other bytes")
		}
		if err := d.Decode(m); err != nil {
			t.Fatal(err)
		}
		if d.Actor != actor || len(d.Events) != len(all) || len(d.Times) != len(all) {
			t.Fatalf("actor %q, %d events, %d times", d.Actor, len(d.Events), len(d.Times))
		}
		for i := range all {
			if d.Events[i] != all[i] {
				t.Fatalf("event %d is\n%+v\nwant\n%+v", i, d.Events[i], all[i])
			}
			if d.Times[i] != times[i] {
				t.Fatalf("event %d has the time %d, want %d", i, d.Times[i], times[i])
			}
			if err := d.Events[i].Check(); err != nil {
				t.Fatalf("event %d was read and may not be written: %v", i, err)
			}
		}
	})
	if compressed == 0 {
		t.Error("no frame was compressed")
	}
	t.Logf("%d frames were compressed", compressed)
}

func TestAFrameIsCompressedAbove4KiB(t *testing.T) {
	for _, c := range []struct {
		size       int // of the lines
		compressed bool
	}{{compressAbove - 1, false}, {compressAbove, false}, {compressAbove + 1, true}, {compressAbove * 10, true}} {
		var b FrameBuilder
		b.Begin(someTime, "")
		e := Event{Kind: KindSucceeded, Instance: "i", Attempt: 1, Result: `""`}
		rest := c.size - len("{}\n") - len(line(&e)) - 1
		e.Result = `"` + strings.Repeat("x", rest) + `"`
		if _, _, err := b.Add(&e, someTime); err != nil {
			t.Fatal(err)
		}
		m := b.Seal(someTerm)
		if m.Compressed != c.compressed || !m.Compressed && len(m.Body) != c.size {
			t.Errorf("lines of %d bytes: compressed %v, %d bytes", c.size, m.Compressed, len(m.Body))
		}
		var d Decoded
		if err := d.Decode(m); err != nil || d.Events[0] != e {
			t.Errorf("lines of %d bytes: %v", c.size, err)
		}
	}
}

func TestSealedMessageIsReadyButForItsPlace(t *testing.T) {
	m := frameOf(t, "server/s1", ready)
	want := Message{Kind: MessageLog, Version: FrameVersion, Term: someTerm, Time: someTime, Body: []byte("{\"by\":\"server/s1\"}\n{\"kind\":\"ready\",\"instance\":\"i\",\"attempt\":1}\n")}
	if fmt.Sprint(*m) != fmt.Sprint(want) {
		t.Errorf("sealed is\n%+v\nwant\n%+v", *m, want)
	}
}

func TestABodyBelongsToTheCaller(t *testing.T) {
	var b FrameBuilder
	b.Begin(someTime, "first")
	if _, _, err := b.Add(&ready, someTime); err != nil {
		t.Fatal(err)
	}
	m := b.Seal(someTerm)
	body := string(m.Body)
	b.Begin(someTime+1, "other")
	if _, _, err := b.Add(&examples[KindFired], someTime+1); err != nil {
		t.Fatal(err)
	}
	if string(m.Body) != body {
		t.Error("the next frame wrote into the sealed one")
	}
}

// TestTimesInAFrame: dt stands where an event's microsecond is another one than
// the event's before.
func TestTimesInAFrame(t *testing.T) {
	var b FrameBuilder
	b.Begin(someTime, "")
	var want []int64
	for _, c := range []struct{ now, at int64 }{
		{someTime, someTime},
		{someTime + 999, someTime},
		{someTime + 1000, someTime + 1000},
		{someTime + 1999, someTime + 1000},
		{someTime + 500, someTime + 1000},    // a clock that went back: the log's time does not
		{someTime - 1e12, someTime + 1000},   // far back
		{someTime + 3e9, someTime + 3e9},     // 3 s later
		{someTime + 3e9 + 1, someTime + 3e9}, // the same microsecond
	} {
		_, at, err := b.Add(&ready, c.now)
		if err != nil || at != c.at {
			t.Errorf("decided %d after the frame: in the log %d after it, want %d (%v)", c.now-someTime, at-someTime, c.at-someTime, err)
		}
		want = append(want, c.at)
	}
	m := b.Seal(someTerm)
	var dts []string
	for _, l := range strings.Split(strings.TrimSpace(string(m.Body)), "\n")[1:] {
		_, after, _ := strings.Cut(l, `"dt":`)
		dt, _, _ := strings.Cut(after, ",")
		dts = append(dts, dt)
	}
	if have := strings.Join(dts, "|"); have != "||1||||3000000|" {
		t.Errorf("dt stands so: %s", have)
	}
	var d Decoded
	if err := d.Decode(m); err != nil || fmt.Sprint(d.Times) != fmt.Sprint(want) {
		t.Errorf("times are %v, want %v (%v)", d.Times, want, err)
	}
}

// TestAFrameSpansAnHourAtMost: a machine that slept while a frame was collected
// must not write one that nobody can read.
func TestAFrameSpansAnHourAtMost(t *testing.T) {
	var b FrameBuilder
	var d Decoded
	b.Begin(someTime, "")
	for _, after := range []int64{0, maxFrameSpan * 1000} {
		if _, _, err := b.Add(&ready, someTime+after); err != nil {
			t.Fatalf("%d ns after the frame's beginning: %v", after, err)
		}
	}
	if _, _, err := b.Add(&ready, someTime+maxFrameSpan*1000+1000); !errors.Is(err, ErrFrameFull) || b.Len() != 2 {
		t.Errorf("later than that: %v", err)
	}
	if err := d.Decode(b.Seal(someTerm)); err != nil || d.Times[1] != someTime+maxFrameSpan*1000 {
		t.Errorf("after an hour: %v, %v", d.Times, err)
	}
	// A frame with nothing in it begins later instead: the next would be no better.
	b.Begin(someTime, "")
	late := someTime + 2*maxFrameSpan*1000
	if _, at, err := b.Add(&ready, late); err != nil || at != late || b.Time() != late {
		t.Errorf("an empty frame after two hours: at %d, %v", at, err)
	}
	if err := d.Decode(b.Seal(someTerm)); err != nil || d.Times[0] != late {
		t.Errorf("an empty frame after two hours: %v, %v", d.Times, err)
	}
}

func TestAFrameTakes2000Events(t *testing.T) {
	var b FrameBuilder
	b.Begin(someTime, "")
	for i := range MaxFrameEvents {
		if b.Full() {
			t.Fatalf("full at %d", i)
		}
		if index, _, err := b.Add(&ready, someTime); err != nil || index != uint32(i) {
			t.Fatalf("event %d: %d, %v", i, index, err)
		}
	}
	if !b.Full() {
		t.Error("it does not say that it is full")
	}
	if _, _, err := b.Add(&ready, someTime); !errors.Is(err, ErrFrameFull) || b.Len() != MaxFrameEvents {
		t.Errorf("one more: %v, %d events", err, b.Len())
	}
	m := b.Seal(someTerm)
	var d Decoded
	if err := d.Decode(m); err != nil || len(d.Events) != MaxFrameEvents {
		t.Errorf("%d events, %v", len(d.Events), err)
	}
	one := line(&ready) + "\n"
	if err := d.Decode(sealed("{}\n" + strings.Repeat(one, MaxFrameEvents+1))); !errors.Is(err, ErrMalformed) {
		t.Errorf("a frame with one more reads: %v", err)
	}
}

// TestAFrameTakes512KiB fills a frame to the last byte.
func TestAFrameTakes512KiB(t *testing.T) {
	var b FrameBuilder
	b.Begin(someTime, "")
	half := Event{Kind: KindSucceeded, Instance: "i", Attempt: 1, Result: `"` + strings.Repeat("x", MaxParams-2) + `"`}
	if _, _, err := b.Add(&half, someTime); err != nil {
		t.Fatal(err)
	}
	if b.Full() {
		t.Error("half full is full")
	}
	rest := half
	rest.Result = `""`
	left := MaxFrameBytes - len("{}\n") - len(line(&half)) - 1 - len(line(&rest)) - 1
	over := rest
	over.Result = `"` + strings.Repeat("y", left+1) + `"`
	if _, _, err := b.Add(&over, someTime); !errors.Is(err, ErrFrameFull) || b.Len() != 1 {
		t.Fatalf("one byte too much: %v, %d events", err, b.Len())
	}
	rest.Result = `"` + strings.Repeat("y", left) + `"`
	if _, _, err := b.Add(&rest, someTime); err != nil || !b.Full() {
		t.Fatalf("the last byte: %v", err)
	}
	m := b.Seal(someTerm)
	var d Decoded
	if err := d.Decode(m); err != nil || len(d.Events) != 2 || d.Events[1] != rest {
		t.Fatalf("%d events, %v", len(d.Events), err)
	}
	text, err := decoder().DecodeAll(m.Body, nil)
	if err != nil || len(text) != MaxFrameBytes {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if err := d.Decode(sealed(string(text))); err != nil {
		t.Errorf("as much without compression: %v", err)
	}
	for name, m := range map[string]*Message{
		"a frame of one byte more":             sealed(string(text[:len(text)-3]) + "z" + string(text[len(text)-3:])),
		"a compressed frame of one byte more":  pressed(string(text[:len(text)-3]) + "z" + string(text[len(text)-3:])),
		"a frame of one empty line end more":   sealed(string(text) + "\n"),
		"a frame of one white space more":      sealed(string(text[:len(text)-1]) + " \n"),
		"a compressed frame of one space more": pressed(string(text[:len(text)-1]) + " \n"),
	} {
		if err := d.Decode(m); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnEventThatNoFrameTakesIsRefusedAlone: the builder goes on without it.
func TestAnEventThatNoFrameTakesIsRefusedAlone(t *testing.T) {
	text := `"` + strings.Repeat("x", MaxParams-2) + `"`
	huge := Event{Kind: KindFailed, Instance: "i", Attempt: 1, Error: strings.Repeat("\x01", MaxErrorText), Result: text, Actor: strings.Repeat("\x01", MaxText), Reason: strings.Repeat("\x01", MaxText)}
	if err := huge.Check(); err != nil {
		t.Fatal(err)
	}
	var b FrameBuilder
	// No event within its bounds takes a frame by itself; only a first line that is
	// huge too makes one too large.
	b.Begin(someTime, strings.Repeat("x", MaxFrameBytes-MaxParams))
	if _, _, err := b.Add(&huge, someTime); !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrFrameFull) || b.Len() != 0 {
		t.Errorf("in an empty frame: %v, %d events", err, b.Len())
	}
	if _, _, err := b.Add(&ready, someTime); err != nil {
		t.Errorf("the next event: %v", err)
	}
	if _, _, err := b.Add(&huge, someTime); !errors.Is(err, ErrFrameFull) {
		t.Errorf("behind others: %v", err)
	}
	var d Decoded
	if err := d.Decode(b.Seal(someTerm)); err != nil || len(d.Events) != 1 {
		t.Errorf("%d events, %v", len(d.Events), err)
	}
}

func TestARefusedEventLeavesNoTrace(t *testing.T) {
	var b FrameBuilder
	b.Begin(someTime, "")
	for _, e := range []*Event{&ready, {Kind: KindReady}, {Kind: KindReady, Instance: "\xff", Attempt: 1}, &ready} {
		_, _, _ = b.Add(e, someTime+5000)
	}
	var d Decoded
	if err := d.Decode(b.Seal(someTerm)); err != nil || len(d.Events) != 2 || b.Len() != 2 || d.Times[1] != someTime+5000 {
		t.Errorf("%d events at %v, %v", len(d.Events), d.Times, err)
	}
}

// pressed makes a message of a body that is compressed.
func pressed(body string) *Message {
	m := sealed("")
	m.Compressed, m.Body = true, encoder().EncodeAll([]byte(body), nil)
	return m
}

// TestWhatIsNoFrameIsMalformed: and there is no panic, and nothing of it is
// given.
func TestWhatIsNoFrameIsMalformed(t *testing.T) {
	one := line(&ready) + "\n"
	good := "{\"by\":\"x\"}\n" + one
	plain := func(text string) *Message { return sealed(text) }
	change := func(f func(*Message)) *Message { m := sealed(good); f(m); return m }
	whole := pressed(good).Body
	for name, m := range map[string]*Message{
		"no body":                                plain(""),
		"a foreign text":                         plain("hello"),
		"a foreign text in lines":                plain("hello\nworld\n"),
		"only a first line":                      plain("{}\n"),
		"a first line without an end":            plain("{}"),
		"no first line":                          plain(one + one),
		"an empty first line":                    plain("\n" + one),
		"a first line with something else":       plain("{\"to\":\"x\"}\n" + one),
		"a first line with by twice":             plain("{\"by\":\"x\",\"by\":\"x\"}\n" + one),
		"a first line with an empty by":          plain("{\"by\":\"\"}\n" + one),
		"a first line with more behind it":       plain("{}{}\n" + one),
		"a first line that is an array":          plain("[]\n" + one),
		"an empty line":                          plain("{}\n\n" + one),
		"an empty line at the end":               plain(good + "\n"),
		"a last line without an end":             plain(strings.TrimSuffix(good, "\n")),
		"a body that is cut":                     plain(good[:len(good)-5]),
		"two events in a line":                   plain("{}\n" + line(&ready) + one),
		"a NUL":                                  plain("{}\n" + line(&ready) + "\x00\n"),
		"a byte order mark":                      plain("\ufeff" + good),
		"an event that is none":                  plain(good + "{\"kind\":\"ready\"}\n"),
		"an unknown kind":                        plain(good + "{\"kind\":\"unheard-of\"}\n"),
		"times that stand still":                 plain("{}\n" + withField(&ready, "dt", "5") + "\n" + withField(&ready, "dt", "5") + "\n"),
		"times that go back":                     plain("{}\n" + withField(&ready, "dt", "5") + "\n" + withField(&ready, "dt", "4") + "\n"),
		"a time over an hour later":              plain("{}\n" + withField(&ready, "dt", fmt.Sprint(maxFrameSpan+1)) + "\n"),
		"a time after all times":                 change(func(m *Message) { m.Time, m.Body = math.MaxInt64-1, []byte("{}\n"+withField(&ready, "dt", "5")+"\n") }),
		"a message without a version":            change(func(m *Message) { m.Version = 0 }),
		"a message of a version below all":       change(func(m *Message) { m.Version = -1 }),
		"a message without a term":               change(func(m *Message) { m.Term = Term{} }),
		"a message without a time":               change(func(m *Message) { m.Time = 0 }),
		"a message before all times":             change(func(m *Message) { m.Time = -5 }),
		"a message that says it is compressed":   change(func(m *Message) { m.Compressed = true }),
		"a message that does not say it":         plain(string(whole)),
		"a compressed body that is cut":          {Version: 1, Term: someTerm, Time: 1, Compressed: true, Body: whole[:len(whole)-1]},
		"a compressed body without a beginning":  {Version: 1, Term: someTerm, Time: 1, Compressed: true, Body: whole[1:]},
		"a compressed body with more behind it":  {Version: 1, Term: someTerm, Time: 1, Compressed: true, Body: append(bytes.Clone(whole), 0)},
		"nothing, compressed":                    pressed(""),
		"compressed nothing":                     {Version: 1, Term: someTerm, Time: 1, Compressed: true},
		"a body that is compressed twice":        pressed(string(whole)),
		"a compressed foreign text":              pressed("hello\n"),
		"a compressed frame with an event wrong": pressed(good + "{}\n"),
	} {
		var d Decoded
		if err := d.Decode(m); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		if d.Actor != "" || len(d.Events) != 0 || len(d.Times) != 0 {
			t.Errorf("%s: nothing may be left of it, there is %q, %v", name, d.Actor, d.Events)
		}
	}
	var d Decoded
	for name, m := range map[string]*Message{"plain": plain(good), "compressed": pressed(good), "without an actor": plain("{}\n" + one), "spaced": plain(" { \"by\" : \"x\" } \r\n" + one)} {
		if err := d.Decode(m); err != nil || d.Events[0] != ready {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFrameOfANewerVersionIsNotRead(t *testing.T) {
	for _, body := range []string{"{}\n" + line(&ready) + "\n", "whatever it is", ""} {
		m := sealed(body)
		m.Version = FrameVersion + 1
		var d Decoded
		err := d.Decode(m)
		if !errors.Is(err, ErrNewerVersion) || errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", body, err)
		}
		for _, say := range []string{"sequence 9", "2", "1"} {
			if !strings.Contains(fmt.Sprint(err), say) {
				t.Errorf("the error does not say %q: %v", say, err)
			}
		}
	}
}

// TestEveryTruncationAndBitFlipIsSurvived: what is damaged is refused, or reads
// as events that are valid; never anything else.
func TestEveryTruncationAndBitFlipIsSurvived(t *testing.T) {
	plain := frameOf(t, "server/s1", ready, examples[KindFailed])
	packed := pressed(string(plain.Body))
	var d Decoded
	for name, m := range map[string]*Message{"plain": plain, "compressed": packed} {
		damaged := *m
		for n := range m.Body {
			damaged.Body = m.Body[:n]
			err := d.Decode(&damaged)
			// A plain frame may lose whole lines from its end; the chain finds that.
			whole := name == "plain" && n > 0 && m.Body[n-1] == '\n' && bytes.Count(m.Body[:n], []byte{'\n'}) > 1
			if (err == nil) != whole || err != nil && !errors.Is(err, ErrMalformed) {
				t.Fatalf("%s, cut at %d: %v", name, n, err)
			}
		}
		damaged.Body = bytes.Clone(m.Body)
		for bit := range 8 * len(m.Body) {
			damaged.Body[bit/8] ^= 1 << (bit % 8)
			survives(t, &d, &damaged)
			damaged.Body[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// survives decodes and holds what may be said of anything that is decoded.
func survives(t *testing.T, d *Decoded, m *Message) {
	t.Helper()
	if err := d.Decode(m); err != nil {
		if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrNewerVersion) {
			t.Fatalf("an error of no kind: %v", err)
		}
		if len(d.Events)+len(d.Times) != 0 || d.Actor != "" {
			t.Fatalf("refused, and %d events are given", len(d.Events))
		}
		return
	}
	if len(d.Events) == 0 || len(d.Events) > MaxFrameEvents || len(d.Times) != len(d.Events) {
		t.Fatalf("%d events, %d times", len(d.Events), len(d.Times))
	}
	before := m.Time
	var b FrameBuilder
	b.Begin(m.Time, d.Actor)
	for i := range d.Events {
		e := &d.Events[i]
		if err := e.Check(); err != nil {
			t.Fatalf("event %d is read and not valid: %v", i, err)
		}
		if d.Times[i] < before {
			t.Fatalf("event %d goes back in time", i)
		}
		before = d.Times[i]
		if _, at, err := b.Add(e, d.Times[i]); errors.Is(err, ErrFrameFull) || errors.Is(err, ErrTooLarge) {
			return // it was written shorter than AX writes
		} else if err != nil || at != d.Times[i] {
			t.Fatalf("event %d cannot be written again: at %d, want %d, %v", i, at, d.Times[i], err)
		}
	}
	var again Decoded
	if err := again.Decode(b.Seal(m.Term)); err != nil {
		t.Fatalf("written again it does not read: %v", err)
	}
	if again.Actor != d.Actor || len(again.Events) != len(d.Events) {
		t.Fatal("written again it is another frame")
	}
	for i := range d.Events {
		if again.Events[i] != d.Events[i] || again.Times[i] != d.Times[i] {
			t.Fatalf("event %d, written again, is another", i)
		}
	}
}

// TestDecodingStaysWithinItsBounds: no message makes decoding take more memory
// than a frame can be worth, however little it is itself.
func TestDecodingStaysWithinItsBounds(t *testing.T) {
	const (
		block = 128 << 10 // of zstd
		// The lines and the same as a string, or what unescaping makes of them; the
		// events in them with room to grow; zstd's own tables.
		most = 6 << 20
	)
	header := func(fields ...byte) []byte { return append([]byte{0x28, 0xb5, 0x2f, 0xfd}, fields...) }
	u64 := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	repeat := func(size, times int) (b []byte) { // blocks that say: this byte, so often
		for i := range times {
			h := uint32(size)<<3 | 1<<1
			if i == times-1 {
				h |= 1
			}
			b = append(b, byte(h), byte(h>>8), byte(h>>16), '\n')
		}
		return b
	}
	big, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string][]byte{
		"16 MiB of line ends":                           encoder().EncodeAll(bytes.Repeat([]byte{'\n'}, 16<<20), nil),
		"16 MiB, size not said":                         big.EncodeAll(bytes.Repeat([]byte("{}\n"), 16<<20/3), nil),
		"1 GiB in blocks of one repeated byte":          append(header(0x00, 0x38), repeat(block, 8192)...),
		"the same with a large window":                  append(header(0x00, 0x58), repeat(block, 8192)...),
		"a size of 2^63 that is said":                   append(append(header(0xe0), u64(1<<63)...), repeat(block, 4)...),
		"a size of all bits":                            append(append(header(0xe0), u64(math.MaxUint64)...), repeat(block, 4)...),
		"a window of 2^41 bytes":                        append(header(0x00, 0xff), repeat(block, 64)...),
		"a size at the bound, and nothing of it":        append(append(header(0xe0), u64(MaxFrameBytes)...), repeat(1, 1)...),
		"many frames in a row, each within the bound":   bytes.Repeat(append(append(header(0xe0), u64(block)...), repeat(block, 1)...), 1000),
		"a skippable frame that says it has 4 GiB":      {0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff, 1, 2, 3},
		"many empty frames":                             bytes.Repeat(encoder().EncodeAll(nil, nil), 100_000),
		"a frame of brackets":                           encoder().EncodeAll([]byte("{}\n{\"kind\":\"led\",\"body\":"+strings.Repeat("[", 500_000)+"\n"), nil),
		"a frame of escapes":                            encoder().EncodeAll([]byte("{}\n{\"kind\":\"alerted\",\"reason\":\""+strings.Repeat(`\u0041`, 80_000)+"\"}\n"), nil),
		"a first line of escapes":                       encoder().EncodeAll([]byte("{\"by\":\""+strings.Repeat(`\n`, 250_000)+"\"}\n"), nil),
		"2,000 events and one more":                     encoder().EncodeAll([]byte("{}\n"+strings.Repeat(line(&ready)+"\n", 2001)), nil),
		"as many lines as go in":                        encoder().EncodeAll([]byte("{}\n"+strings.Repeat("{}\n", MaxFrameBytes/3-1)), nil),
		"a body that was never compressed, and is huge": bytes.Repeat([]byte("{}\n"), 8<<20/3),
	}
	for name, body := range bodies {
		m := sealed("")
		m.Body, m.Compressed = body, !strings.Contains(name, "never")
		var d Decoded
		took := allocated(func() {
			if err := d.Decode(m); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: %v", name, err)
			}
		})
		if took > most {
			t.Errorf("%s (%d bytes): decoding took %d bytes, at most %d", name, len(body), took, most)
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDecodedIsReused: of a frame that was read before nothing shines through.
func TestDecodedIsReused(t *testing.T) {
	var full []Event
	for _, k := range Kinds() {
		full = append(full, examples[k])
	}
	large, small := frameOf(t, "somebody", full...), frameOf(t, "", ready)
	var d Decoded
	for range 2 {
		if err := d.Decode(large); err != nil || len(d.Events) != len(full) {
			t.Fatal(err)
		}
		room := d.Events[:cap(d.Events)]
		if err := d.Decode(small); err != nil {
			t.Fatal(err)
		}
		if len(d.Events) != 1 || d.Events[0] != ready || d.Actor != "" || len(d.Times) != 1 {
			t.Fatalf("%q, %+v at %v", d.Actor, d.Events, d.Times)
		}
		if &room[0] != &d.Events[0] {
			t.Error("the memory was not used again")
		}
		for i := range room[1:] { // what is kept by nobody can be freed
			if room[1+i] != (Event{}) {
				t.Fatalf("place %d still holds %+v", 1+i, room[1+i])
			}
		}
		if err := d.Decode(sealed("no frame")); err == nil || len(d.Events) != 0 || d.Actor != "" {
			t.Fatalf("after an error there are %d events", len(d.Events))
		}
	}
}

// TestEventsOfAnEarlierFrameMayBeKept: a copy of an event stays as it is when
// the next frame is read into the same memory.
func TestEventsOfAnEarlierFrameMayBeKept(t *testing.T) {
	var d Decoded
	first := pressed("{}\n" + line(&examples[KindStarted]) + "\n")
	second := pressed("{}\n" + strings.ReplaceAll(line(&examples[KindStarted]), "s", "z") + "\n")
	if err := d.Decode(first); err != nil {
		t.Fatal(err)
	}
	kept := d.Events[0]
	_ = d.Decode(second)
	first.Body = nil
	if kept != examples[KindStarted] {
		t.Errorf("it became %+v", kept)
	}
}

func FuzzDecode(f *testing.F) {
	var all []Event
	for _, k := range Kinds() {
		all = append(all, examples[k])
		f.Add([]byte("{\"by\":\"x\"}\n"+line(&examples[k])+"\n"), false, int64(1e18))
		f.Add(pressed("{}\n"+line(&examples[k])+"\n").Body, true, int64(1))
	}
	f.Add(frameOf(f, "server/s1", all...).Body, true, int64(math.MaxInt64))
	f.Add([]byte("{}\n"+withField(&ready, "dt", "5")+"\n"+withField(&ready, "dt", "6")+"\n"), false, int64(1e18))
	f.Add([]byte("{}\n{\"kind\":\"alerted\",\"reason\":\"\\ud83d\\udca5\\b\\/\"}\n"), false, int64(1e18))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, true, int64(1e18))
	var d Decoded // reused, as a fold does
	f.Fuzz(func(t *testing.T, body []byte, compressed bool, time int64) {
		survives(t, &d, &Message{Seq: 1, Kind: MessageLog, Version: FrameVersion, Term: someTerm, Time: time, Compressed: compressed, Body: body})
	})
}
