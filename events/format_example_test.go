package events

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
)

// The worked example of docs/log-format.md: a log of five messages, as a stream
// holds them, in testdata/log.json. Readers in other languages can take it as
// their test.

const logFile = "testdata/log.json"

// stored is a message as it stands in a stream, with the hash of everything up
// to and with it.
type stored struct {
	Sequence uint64            `json:"sequence"`
	Subject  string            `json:"subject"`
	Headers  map[string]string `json:"headers"`
	Body     []byte            `json:"body"` // base64
	Hash     string            `json:"hash"`
}

// exampleKey is the key of the server that leads in the example. Its seed is the
// bytes 0 to 31, so that nobody takes it for a secret.
func exampleKey() ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(i)
	}
	return ed25519.NewKeyFromSeed(seed)
}

func exampleAddress() Address {
	a, err := NewAddress("example")
	if err != nil {
		panic(err)
	}
	return a
}

// exampleLog builds the messages of the example as AX writes them.
func exampleLog(t *testing.T) []*Message {
	t.Helper()
	const begin = int64(1_800_000_000_000_000_000) // 2027-01-15T08:00:00Z
	term := Term{0x0f, 0x1e, 0x2d, 0x3c, 0x4b, 0x5a, 0x69, 0x78, 0x87, 0x96, 0xa5, 0xb4, 0xc3, 0xd2, 0xe1, 0xf0}
	key := exampleKey()
	var all []*Message
	var chain Hash
	put := func(m *Message) {
		m.Seq = uint64(len(all) + 1)
		chain = Chain(chain, m)
		all = append(all, m)
	}
	type timed struct {
		after time.Duration // the frame
		e     Event
	}
	frame := func(kind MessageKind, after time.Duration, list ...timed) {
		var b FrameBuilder
		now := begin + int64(after)
		b.Begin(now, "server/s1")
		for i := range list {
			if _, _, err := b.Add(&list[i].e, now+int64(list[i].after)); err != nil {
				t.Fatal(err)
			}
		}
		m := b.Seal(term)
		m.Kind = kind
		if kind == MessageLog {
			m.Prev = chain
		}
		put(m)
	}
	body := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	public := base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
	frame(MessageLed, 0, timed{0, Event{Kind: KindLed, Body: body(LedBody{Server: "s1", Version: "v0.1.0", Zones: "2026a", PublicKey: public})}})
	frame(MessageLog, 250*time.Millisecond+417*time.Nanosecond,
		timed{0, Event{Kind: KindDefined, Object: ObjectGroup, Name: "slow", Version: 1, Actor: "user/alice", Body: `{"apiVersion":"ax/v1","kind":"Group","metadata":{"name":"slow","title":"慢"},"spec":{"limit":2}}`}},
		timed{0, Event{Kind: KindAlerted, Reason: "disk-full", Error: "90 % of the disk is used:\n\"/var\""}},
		timed{1500 * time.Microsecond, Event{Kind: KindFired, Task: "sync-orders", Trigger: "main", Instance: "sync-orders-1800000000000-s1", Version: 1, Due: 1800000000000, Next: 1800000005000}},
		timed{1500*time.Microsecond + 999, Event{Kind: KindDispatched, Instance: "sync-orders-1800000000000-s1", Attempt: 1, Offer: 1, At: 1800000010251}},
	)
	put(&Message{Kind: MessageLog, Body: []byte("hello")})
	var many []timed
	for i := range 60 {
		id := NewInstanceID("sync-orders", 1_800_000_005_000+int64(i)*5000, "s1", 0)
		many = append(many, timed{time.Duration(i) * time.Millisecond, Event{Kind: KindReady, Instance: id, Attempt: 2}})
	}
	frame(MessageLog, 5*time.Minute, many...)
	mark := CheckpointBody{Position: 4, Hash: chain, Digest: sha256.Sum256([]byte("the views of the example")), Rows: 63}
	mark.Signature = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(mark.Text())))
	frame(MessageLog, 5*time.Minute+time.Second,
		timed{0, Event{Kind: KindIncident, Reason: ReasonForeign, From: 3, Count: 1, Error: "1 message that is no frame"}},
		timed{0, Event{Kind: KindCheckpoint, Body: body(mark)}},
	)
	return all
}

// asStored gives a message with the subject and headers that AX gives it.
func asStored(m *Message) stored {
	s := stored{Sequence: m.Seq, Subject: exampleAddress().Log(0), Headers: map[string]string{}, Body: m.Body}
	if m.Kind == MessageLed {
		s.Subject = exampleAddress().Led(0)
	}
	if m.Version != 0 { // a foreign message has none
		for name, values := range messageHeader(m) {
			s.Headers[name] = values[0]
		}
	}
	return s
}

func storedLog(t *testing.T) (all []stored) {
	t.Helper()
	b, err := os.ReadFile(logFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLogExample holds testdata/log.json against what AX writes. How zstd packs
// a body may change with its version, so only what is in it is compared.
func TestLogExample(t *testing.T) {
	built := exampleLog(t)
	if *update {
		var all []stored
		var h Hash
		for _, m := range built {
			h = Chain(h, m)
			s := asStored(m)
			s.Hash = h.String()
			all = append(all, s)
		}
		b, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		generated(t, logFile, string(b)+"\n")
	}
	all := storedLog(t)
	if len(all) != len(built) {
		t.Fatalf("%s has %d messages, AX writes %d; refresh it: %s", logFile, len(all), len(built), refresh(t))
	}
	differs := false
	for i, m := range built {
		have, want := all[i], asStored(m)
		if m.Compressed {
			have.Body, want.Body = unpacked(t, have.Body), unpacked(t, want.Body)
		}
		have.Hash = ""
		if differs { // what was packed otherwise has another hash, and so on
			delete(have.Headers, headerPrev)
			delete(want.Headers, headerPrev)
			continue
		}
		if fmt.Sprint(have) != fmt.Sprint(want) {
			t.Errorf("message %d is\n%v\nAX writes\n%v\nif that is right, refresh it: %s", m.Seq, have, want, refresh(t))
		}
		differs = string(all[i].Body) != string(m.Body)
	}
}

func unpacked(t *testing.T, body []byte) []byte {
	t.Helper()
	text, err := decoder().DecodeAll(body, nil)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestAXReadsTheExample reads the messages as they come from a stream.
func TestAXReadsTheExample(t *testing.T) {
	log := &JetStreamLog{log: exampleAddress().Log(0), led: exampleAddress().Led(0)}
	var chain Hash
	counts := []int{1, 4, 0, 60, 2}
	for i, s := range storedLog(t) {
		h := nats.Header{}
		for name, value := range s.Headers {
			h.Set(name, value)
		}
		m := log.message(s.Subject, s.Sequence, time.Time{}, h, s.Body)
		if m.Kind == MessageLog && m.Version != 0 && m.Prev != chain {
			t.Errorf("message %d carries %s, the chain is at %s", s.Sequence, m.Prev, chain)
		}
		chain = Chain(chain, m)
		if chain.String() != s.Hash {
			t.Errorf("after message %d the chain is %s, %s says %s", s.Sequence, chain, logFile, s.Hash)
		}
		var d Decoded
		if err := d.Decode(m); len(d.Events) != counts[i] || (err == nil) != (counts[i] > 0) {
			t.Errorf("message %d has %d events, %v", s.Sequence, len(d.Events), err)
		}
	}
}

// TestAnotherReaderReadsTheExample is a second opinion: a reader that is written
// from docs/log-format.md alone and shares nothing with the codec.
func TestAnotherReaderReadsTheExample(t *testing.T) {
	unzstd, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unzstd.Close()
	chain := make([]byte, 32)
	var term string
	var keys []string
	hashes := map[uint64]string{}
	var report []string
	for _, s := range storedLog(t) {
		// §2: what a header says, or nothing.
		version, _ := strconv.ParseUint(s.Headers["Ax-Version"], 10, 31)
		nanos, _ := strconv.ParseUint(s.Headers["Ax-Time"], 10, 63)
		termBytes, err := hex.DecodeString(s.Headers["Ax-Term"])
		if err != nil || len(termBytes) != 16 {
			termBytes = make([]byte, 16)
		}
		led := strings.HasSuffix(s.Subject, ".led")
		packed := s.Headers["Content-Encoding"] == "zstd"

		// §7: the chain.
		before := hex.EncodeToString(chain)
		sum := append([]byte{}, chain...)
		sum = binary.BigEndian.AppendUint64(sum, s.Sequence)
		sum = append(sum, map[bool]byte{false: 1, true: 2}[led])
		sum = binary.BigEndian.AppendUint64(sum, version)
		sum = append(sum, termBytes...)
		sum = binary.BigEndian.AppendUint64(sum, nanos)
		sum = append(sum, map[bool]byte{false: 0, true: 1}[packed])
		hash := sha256.Sum256(append(sum, s.Body...))
		chain = hash[:]
		hashes[s.Sequence] = hex.EncodeToString(chain)

		// §9: in this order.
		body := s.Body
		if packed {
			if body, err = unzstd.DecodeAll(body, nil); err != nil {
				t.Fatal(err)
			}
		}
		lines := strings.Split(string(body), "\n")
		switch {
		case version > 1:
			t.Fatal("a newer version")
		case version < 1 || nanos == 0 || len(lines) < 3 || lines[len(lines)-1] != "":
			report = append(report, fmt.Sprintf("%d passed", s.Sequence))
			continue
		case led:
			term = s.Headers["Ax-Term"]
		case s.Headers["Ax-Term"] != term:
			t.Fatal("a frame of another term")
		case s.Headers["Ax-Prev"] != before:
			t.Fatalf("message %d does not follow", s.Sequence)
		}

		// §3: the lines.
		var head struct{ By string }
		if err := json.Unmarshal([]byte(lines[0]), &head); err != nil {
			t.Fatal(err)
		}
		dt := int64(0)
		for i, text := range lines[1 : len(lines)-1] {
			var e struct {
				Kind, By string
				Dt       int64
				Body     struct {
					PublicKey, Hash, Digest, Signature string
					Position, Rows                     uint64
				}
			}
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				t.Fatal(err)
			}
			if e.Dt != 0 {
				dt = e.Dt
			}
			if e.By == "" {
				e.By = head.By
			}
			if e.Body.PublicKey != "" {
				keys = append(keys, e.Body.PublicKey)
			}
			if e.Body.Signature != "" { // §8
				signed := fmt.Sprintf("ax checkpoint\nposition %d\nhash %s\ndigest %s\nrows %d\n", e.Body.Position, e.Body.Hash, e.Body.Digest, e.Body.Rows)
				key, _ := base64.RawURLEncoding.DecodeString(keys[0])
				signature, _ := base64.RawURLEncoding.DecodeString(e.Body.Signature)
				if !ed25519.Verify(key, []byte(signed), signature) {
					t.Error("the checkpoint's signature is wrong")
				}
				if hashes[e.Body.Position] != e.Body.Hash {
					t.Error("the checkpoint's hash is wrong")
				}
			}
			if i < 4 {
				report = append(report, fmt.Sprintf("%d.%d %s by %s at %d", s.Sequence, i, e.Kind, e.By, int64(nanos)+dt*1000))
			}
		}
		if hashes[s.Sequence] != s.Hash {
			t.Errorf("after message %d: %s, want %s", s.Sequence, hashes[s.Sequence], s.Hash)
		}
	}
	want := []string{
		"1.0 led by server/s1 at 1800000000000000000",
		"2.0 defined by user/alice at 1800000000250000417",
		"2.1 alerted by server/s1 at 1800000000250000417",
		"2.2 fired by server/s1 at 1800000000251500417",
		"2.3 dispatched by server/s1 at 1800000000251500417",
		"3 passed",
		"4.0 ready by server/s1 at 1800000300000000000",
		"4.1 ready by server/s1 at 1800000300001000000",
		"4.2 ready by server/s1 at 1800000300002000000",
		"4.3 ready by server/s1 at 1800000300003000000",
		"5.0 incident by server/s1 at 1800000301000000000",
		"5.1 checkpoint by server/s1 at 1800000301000000000",
	}
	if have := strings.Join(report, "\n"); have != strings.Join(want, "\n") {
		t.Errorf("it reads\n%s\nwant\n%s", have, strings.Join(want, "\n"))
	}
}

// TestHeadersOfAnyKindAreSurvived: what is missing or unreadable is zero, and the
// message no frame.
func TestHeadersOfAnyKindAreSurvived(t *testing.T) {
	log := &JetStreamLog{log: exampleAddress().Log(0), led: exampleAddress().Led(0)}
	good := frameOf(t, "", ready)
	for _, c := range []struct {
		name, value string
		what        func(m, good *Message) bool
	}{
		{headerVersion, "1", func(m, _ *Message) bool { return m.Version == 1 }},
		{headerVersion, "01", func(m, _ *Message) bool { return m.Version == 1 }},
		{headerVersion, "2147483647", func(m, _ *Message) bool { return m.Version == 2147483647 }},
		{headerVersion, "2147483648", func(m, _ *Message) bool { return m.Version == 0 }},
		{headerVersion, "99999999999999999999", func(m, _ *Message) bool { return m.Version == 0 }},
		{headerVersion, "", func(m, _ *Message) bool { return m.Version == 0 }},
		{headerVersion, "+1", func(m, _ *Message) bool { return m.Version == 0 }},
		{headerVersion, "-1", func(m, _ *Message) bool { return m.Version == 0 }},
		{headerVersion, "1.0", func(m, _ *Message) bool { return m.Version == 0 }},
		{headerTime, "9223372036854775807", func(m, _ *Message) bool { return m.Time == 9223372036854775807 }},
		{headerTime, "9223372036854775808", func(m, _ *Message) bool { return m.Time == 0 }},
		{headerTime, "-5", func(m, _ *Message) bool { return m.Time == 0 }},
		{headerTime, "2027-01-15T08:00:00Z", func(m, _ *Message) bool { return m.Time == 0 }},
		{headerTerm, strings.ToUpper(good.Term.String()), func(m, good *Message) bool { return m.Term == good.Term }},
		{headerTerm, good.Term.String()[1:], func(m, _ *Message) bool { return m.Term.IsZero() }},
		{headerTerm, "x" + good.Term.String()[1:], func(m, _ *Message) bool { return m.Term.IsZero() }},
		{headerPrev, "x", func(m, _ *Message) bool { return m.Prev.IsZero() && m.Version == 1 }},
		{headerEncoding, "", func(m, _ *Message) bool { return !m.Compressed && m.Version == 1 }},
		{headerEncoding, "zstd", func(m, _ *Message) bool { return m.Compressed && m.Version == 1 }},
		{headerEncoding, "ZSTD", func(m, _ *Message) bool { return !m.Compressed && m.Version == 0 }},
		{headerEncoding, "gzip", func(m, _ *Message) bool { return !m.Compressed && m.Version == 0 }},
	} {
		h := messageHeader(good)
		h[c.name] = []string{c.value, "a second value"}
		m := log.message(log.log, 7, time.Unix(0, 5), h, good.Body)
		if !c.what(m, good) {
			t.Errorf("%s: %q gives %+v", c.name, c.value, m)
		}
		if m.Seq != 7 || m.Kind != MessageLog || m.Stored != 5 || string(m.Body) != string(good.Body) {
			t.Errorf("%s: %q changes more: %+v", c.name, c.value, m)
		}
	}
	for _, h := range []nats.Header{nil, {}, {"ax-version": {"1"}}} {
		if m := log.message(log.led, 7, time.Time{}, h, nil); m.Version != 0 || m.Kind != MessageLed {
			t.Errorf("%v gives %+v", h, m)
		}
	}
}

// TestHeadersReadBackEqual: what a message says of itself survives its headers.
func TestHeadersReadBackEqual(t *testing.T) {
	log := &JetStreamLog{log: exampleAddress().Log(0), led: exampleAddress().Led(0)}
	for _, m := range exampleLog(t) {
		if m.Version == 0 {
			continue
		}
		subject := log.log
		if m.Kind == MessageLed {
			subject = log.led
		}
		m.Stored = 5
		if have := log.message(subject, m.Seq, time.Unix(0, 5), messageHeader(m), m.Body); fmt.Sprint(*have) != fmt.Sprint(*m) {
			t.Errorf("message %d reads back as\n%+v\nwant\n%+v", m.Seq, *have, *m)
		}
	}
}
