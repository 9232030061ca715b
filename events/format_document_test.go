package events

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ax-scheduler/ax/events/internal/jsonline"
)

const formatDocument = root + "/docs/log-format.md"

// TestLogFormatDocument holds the parts of docs/log-format.md that are made from
// tables and from the example against them. What stands between is written by
// hand; other tests here hold its numbers.
func TestLogFormatDocument(t *testing.T) {
	b, err := os.ReadFile(formatDocument)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	seen := 0
	for name, content := range documentParts(t) {
		begin, end := "<!-- generated: "+name+" -->\n", "<!-- end -->\n"
		before, rest, ok := strings.Cut(text, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Errorf("%s has no part %q", formatDocument, name)
			continue
		}
		text = before + begin + content + end + after
		seen++
	}
	if n := strings.Count(text, "<!-- generated: "); n != seen {
		t.Errorf("%s has %d generated parts, this test makes %d", formatDocument, n, seen)
	}
	generated(t, formatDocument, text)
}

func documentParts(t *testing.T) map[string]string {
	parts := map[string]string{}
	w := func(name, format string, args ...any) { parts[name] += fmt.Sprintf(format, args...) }

	w("bounds", "| what | bound |\n| --- | --- |\n")
	for _, c := range []struct {
		what  string
		bound any
	}{
		{"events of a frame", MaxFrameEvents},
		{"bytes of a frame's lines, before compression", MaxFrameBytes},
		{"bytes of lines above which a writer compresses", compressAbove},
		{"`dt`, microseconds", maxFrameSpan},
		{"`depth`", MaxDepth},
		{"objects and arrays around a value in `params`, `result` or a definition", MaxNesting},
		{"objects and arrays around a value in `body`", jsonline.MaxDepth},
		{"bytes of `params` and of `result`, as they stand", MaxParams},
		{"bytes of `body`, as they stand", MaxDefinition},
		{"bytes of the `body` of `restated`, as they stand", MaxBody},
		{"bytes of `error`, without escapes", MaxErrorText},
		{"bytes of any other string of an event, without escapes", MaxText},
	} {
		w("bounds", "| %s | %d |\n", c.what, c.bound)
	}

	w("fields", "| field | type | means |\n| --- | --- | --- |\n")
	for _, f := range fieldTable {
		w("fields", "| `%s` | %s | %s |\n", f.name, f.typ, f.doc)
	}

	docs := kindDocs(t)
	w("kinds", "| kind | records | must have | may have |\n| --- | --- | --- | --- |\n")
	for _, k := range Kinds() {
		w("kinds", "| [`%s`](schema/events/%s) | %s | %s | %s |\n", k, schemaFile(k), docs[k], orDash(kindTable[k].required), orDash(kindTable[k].optional))
	}
	w("any kind", "Any kind may also have: %s.\n", anyKind)

	var full Event // of no kind: one with every field
	for bit := range fieldTable {
		set(&full, bit, sample(bit))
	}
	order := topLevel(t, string(full.AppendJSON(nil, 1)))
	w("order", "`%s`\n", strings.Join(order, "` `"))

	all := storedLog(t)
	w("example", "| sequence | subject | `Ax-Time` | `Content-Encoding` | body, bytes | hash after it |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, s := range all {
		w("example", "| %d | `%s` | %s | %s | %d | `%s` |\n", s.Sequence, s.Subject, dash(s.Headers[headerTime]), dash(s.Headers[headerEncoding]), len(s.Body), s.Hash)
	}
	w("example", "\nIn all but message 3, `Ax-Version` is `%s` and `Ax-Term` is `%s`.\n", all[0].Headers[headerVersion], all[0].Headers[headerTerm])

	first := all[0]
	w("hashed", "```\n%s  hash before: none\n", strings.Repeat("00", 32))
	w("hashed", "%-64s  sequence\n", hex.EncodeToString(binary.BigEndian.AppendUint64(nil, first.Sequence)))
	w("hashed", "%-64s  subject: led\n", "02")
	w("hashed", "%-64s  version\n", "0000000000000001")
	w("hashed", "%-64s  term\n", first.Headers[headerTerm])
	var nanos uint64
	if _, err := fmt.Sscan(first.Headers[headerTime], &nanos); err != nil {
		t.Fatal(err)
	}
	w("hashed", "%-64s  time\n", hex.EncodeToString(binary.BigEndian.AppendUint64(nil, nanos)))
	w("hashed", "%-64s  not compressed\n", "00")
	w("hashed", "%-64s  the body's %d bytes, which begin so\n", hex.EncodeToString(first.Body[:24])+"…", len(first.Body))
	w("hashed", "```\n\nIts SHA-256 is `%s`.\n", first.Hash)

	w("lines", "```\n%s```\n", all[1].Body)

	mark := exampleCheckpoint(t)
	w("signed", "```\n%s```\n\n", mark.Text())
	w("signed", "The public key, from message 1: `%s`. The signature, from message 5: `%s`.\n", examplePublicKey(t), mark.Signature)
	return parts
}

func orDash(s fieldSet) string {
	if s == 0 {
		return "–"
	}
	return s.String()
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// topLevel gives the names of an object's fields in their order.
func topLevel(t *testing.T, text string) (names []string) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name.(string))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

func exampleCheckpoint(t *testing.T) CheckpointBody {
	t.Helper()
	lines := strings.Split(string(storedLog(t)[4].Body), "\n")
	var e struct{ Body CheckpointBody }
	if err := json.Unmarshal([]byte(lines[2]), &e); err != nil || e.Body.Signature == "" {
		t.Fatalf("message 5 has no checkpoint: %v", err)
	}
	return e.Body
}

func examplePublicKey(t *testing.T) string {
	t.Helper()
	lines := strings.Split(string(storedLog(t)[0].Body), "\n")
	var e struct{ Body LedBody }
	if err := json.Unmarshal([]byte(lines[1]), &e); err != nil || e.Body.PublicKey == "" {
		t.Fatalf("message 1 has no key: %v", err)
	}
	return e.Body.PublicKey
}

// TestLogFormatDocumentNamesWhatThereIs: headers, reasons of the format, and
// files that the text points to.
func TestLogFormatDocumentNamesWhatThereIs(t *testing.T) {
	b, err := os.ReadFile(formatDocument)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, word := range []string{headerVersion, headerTerm, headerTime, headerPrev, headerEncoding, ReasonForeign, ReasonLogWentBack} {
		if !strings.Contains(text, "`"+word+"`") {
			t.Errorf("it does not say what `%s` is", word)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([\w./-]+)(#[^)]*)?\)`).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(root + "/docs/" + m[1]); err != nil {
			t.Errorf("it points to %s: %v", m[1], err)
		}
	}
	if want := fmt.Sprintf("version %d", FrameVersion); !strings.Contains(text, want) {
		t.Errorf("it is not of %s", want)
	}
}

// TestExamplesOfIDsInTheDocument: what the text gives as ids are such.
func TestExamplesOfIDsInTheDocument(t *testing.T) {
	b, err := os.ReadFile(formatDocument)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []InstanceID{
		NewInstanceID("sync-orders", 1800000000000, "s1", 0), NewInstanceID("sync-orders", 1800000000000, "s1", 1),
		NewInstanceID("sync-orders", 1800000000000, "ax-1", 0), NewInstanceID("sync-orders", 1800000000000, "ax-1", 1),
	} {
		if !strings.Contains(string(b), "`"+string(id)+"`") {
			t.Errorf("%s is not in it", id)
		}
	}
	if token := fmt.Sprintf("`%d`", FencingToken(Position{1042, 3})); !strings.Contains(string(b), token) {
		t.Errorf("the fencing token of 1042.3, %s, is not in it", token)
	}
}
