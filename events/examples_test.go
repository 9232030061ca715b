package events

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update writes the files that tests generate: testdata, docs/states.md, the
// generated parts of docs/log-format.md, and docs/schema/events.
var update = flag.Bool("update", false, "write testdata and generated documents anew")

// root is the repository's, seen from this package.
const root = ".."

// generated holds what is in a file of the repository against what a test makes,
// or writes it with -update.
func generated(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v\nto write it: %s", err, refresh(t))
	}
	if string(have) != want {
		t.Errorf("%s is not what the code says, first in line %s\nif the code is right, refresh it and read the difference: %s",
			path, firstDifference(string(have), want), refresh(t))
	}
}

// refresh is the command that writes what this test compares.
func refresh(t *testing.T) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return "go test ./events -run " + name + " -update"
}

func firstDifference(have, want string) string {
	h, w := strings.Split(have, "\n"), strings.Split(want, "\n")
	line := func(lines []string, i int) string {
		if i < len(lines) {
			return lines[i]
		}
		return ""
	}
	for i := range max(len(h), len(w)) {
		a, b := line(h, i), line(w, i)
		if a == b {
			continue
		}
		at := 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		cut := func(s string) string { return s[max(0, min(at, len(s))-30):min(len(s), at+90)] }
		return fmt.Sprintf("%d:\nhave …%s\nwant …%s", i+1, cut(a), cut(b))
	}
	return "0: none"
}

// examples has one event of each kind with every field that the kind may have.
// They tell a story of sorts, in no particular order of time.
var examples = [NumKinds]Event{
	KindDefined: {Object: ObjectTask, Name: "sync-orders", Version: 2,
		Body: `{"apiVersion":"ax/v1","kind":"Task","metadata":{"name":"sync-orders","title":"订单同步"},"spec":{"executor":{"shell":{"command":"sync orders"}},"group":"default","timeout":"30s","retry":{"max":3,"backoff":"exponential","base":"1s","cap":"1m"},"maxLost":3,"overlap":{"policy":"forbid"},"priority":5}}`},
	KindRemoved:  {Object: ObjectTask, Name: "sync-orders", Reason: "replaced"},
	KindPaused:   {Object: ObjectTask, Name: "sync-orders", Trigger: "main", Reason: "the shop is closed"},
	KindResumed:  {Object: ObjectTask, Name: "sync-orders", Trigger: "main", Reason: "the shop is open"},
	KindRestated: {Object: ObjectInstance, Name: "sync-orders-1800000000000-s1", Instance: "sync-orders-1800000000000-s1", Body: `{"instance":{"id":"sync-orders-1800000000000-s1","task":"sync-orders","version":2,"due":1800000000000,"state":"RETRYING","attempt":2}}`},
	KindPlanned:  {Task: "sync-orders", Trigger: "main", Version: 2, Due: 1799999995000, Next: 1800000000000, Reason: "clock-step"},
	KindFired: {Task: "sync-orders", Trigger: "main", Instance: "sync-orders-1800000000000-s1", Version: 2, Due: 1800000000000, Next: 1800000005000, Generation: 1,
		Params: `{"table":"orders"}`, Key: "order-4711", Reason: "misfire"},
	KindSkipped: {Task: "sync-orders", Trigger: "main", Instance: "sync-orders-1800000000000-s1", From: 1799999900000, Due: 1799999995000, Count: 20, Next: 1800000000000,
		Reason: "overlap", Error: "an earlier instance is open"},
	KindReady:      {Instance: "sync-orders-1800000000000-s1", Attempt: 2},
	KindDispatched: {Instance: "sync-orders-1800000000000-s1", Attempt: 1, Offer: 1, At: 1800000010003},
	KindWithdrawn:  {Instance: "sync-orders-1800000000000-s1", Attempt: 1, Offer: 1, Reason: "unclaimed"},
	KindStarted: {Instance: "sync-orders-1800000000000-s1", Attempt: 1, Offer: 2, At: 1800000040007, Worker: "w1", Incarnation: 1799999000123456, Lease: 15000,
		Nonce: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"},
	KindRetrying:    {Instance: "sync-orders-1800000000000-s1", Attempt: 2, At: 1800000001000, Reason: "attempts"},
	KindDead:        {Instance: "sync-orders-1800000000000-s1", Reason: "permanent", Error: "no such table"},
	KindDiscarded:   {Instance: "sync-orders-1800000000000-s1", Reason: "not needed any more"},
	KindRedriven:    {Instance: "sync-orders-1800000000000-s1", Attempt: 5, Params: `{"table":"orders_new"}`, Reason: "mended"},
	KindCancelAsked: {Instance: "sync-orders-1800000000000-s1", Reason: "wrong table"},
	KindCancelled:   {Instance: "sync-orders-1800000000000-s1", Attempt: 1, Reason: "wrong table", Error: "ended by SIGTERM"},
	KindLost:        {Instance: "sync-orders-1800000000000-s1", Attempt: 1, Worker: "w1", Reason: "worker-gone"},
	KindThrottled:   {Task: "sync-orders", Count: 2, Reason: "run"},
	KindRunStarted:  {Name: "nightly-1800000000000-s1", Version: 3, Due: 1800000000000, Generation: 1, Params: `{"day":"2027-01-15"}`},
	KindRunFinished: {Name: "nightly-1800000000000-s1", Reason: "attempts", Error: "the node load is dead"},
	KindNodeSkipped: {Instance: "nightly--load-1800000000000-s1", Reason: "conflict"},
	KindApproved:    {Instance: "nightly--load-1800000000000-s1", Reason: "looks good"},
	KindSignalled:   {Instance: "nightly--load-1800000000000-s1", Name: "file-is-there", Params: `{"file":"a.csv"}`},
	KindOverridden:  {Instance: "nightly--load-1800000000000-s1", Outcome: KindSucceeded, Reason: "loaded by hand"},
	KindSucceeded:   {Instance: "sync-orders-1800000000000-s1", Attempt: 1, Result: `{"rows":[12,3]}`, Reason: "fallback", Error: "the first way did not work"},
	KindFailed:      {Instance: "sync-orders-1800000000000-s1", Attempt: 1, At: 1800000060000, Result: `{"exitCode":75}`, Reason: "by-worker", Error: "exit status 75: \"try later\"\n", Permanent: true},
	KindTimedOut:    {Instance: "sync-orders-1800000000000-s1", Attempt: 1, Worker: "w1", Result: `{"rows":7}`, Reason: "run", Error: "ran for more than 30s"},
	KindLate:        {Instance: "sync-orders-1800000000000-s1", Attempt: 1, Result: `{"rows":12}`, Outcome: KindSucceeded, Reason: "over", Error: "after its time limit"},
	KindRefused: {Task: "sync-orders", Trigger: "main", Instance: "sync-orders-1800000000000-s1", Object: ObjectTask, Name: "sync-orders", Attempt: 1, Offer: 2, Worker: "w1",
		Outcome: KindFailed, Key: "order-4711", Reason: "no-such-task", Error: "trigger: task \"sync-orders\" does not exist"},
	KindIgnored:  {Task: "sync-orders", Trigger: "main", Instance: "sync-orders-1800000000000-s1", Attempt: 1, Reason: "duplicate", Error: "report of worker w1: succeeded"},
	KindAlerted:  {Task: "sync-orders", Name: "too-slow", Reason: "run", Error: "5 time-outs in 24 h"},
	KindIncident: {Task: "sync-orders", Trigger: "main", Instance: "sync-orders-1800000000000-s1", From: 1041, Count: 2, Reason: "foreign-frame", Error: "2 messages from sequence 1041 to 1042 are no frames"},
	KindLed:      {Body: `{"server":"s1","version":"v0.1.0","zones":"2026a","publicKey":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","boot":"5b1b6bd1-3c2f-4a53-a1f5-7d7d0e2f3c4d"}`},
	KindCheckpoint: {Body: `{"position":1040,"hash":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",` +
		`"digest":"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae","rows":1234,"trim":20,"signature":"c2lnbmF0dXJl"}`},
}

func init() {
	for k := range examples {
		e := &examples[k]
		e.Kind = Kind(k)
		e.Cause, e.Root = Position{1042, 3}, Position{1040, 0}
		e.Actor, e.Depth, e.Inbox = "user/日报", 1, 77
	}
}

// kindsFile is the byte table: the encoded form of an event of every kind with
// every field. Readers in other languages can take it as their test.
const kindsFile = "testdata/kinds.txt"

func TestByteTableSpellsOutEveryKind(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# One event of every kind with every field it may have, one line each, as it stands in a frame.\n")
	b.WriteString("# A change of a line here is a change of the log format. Written by: " + refresh(t) + "\n")
	for _, k := range Kinds() {
		b.Write(examples[k].AppendJSON(nil, -1))
		b.WriteByte('\n')
	}
	generated(t, kindsFile, b.String())
}

func TestByteTableReadsBackEqual(t *testing.T) {
	lines := byteTable(t)
	if len(lines) != len(Kinds()) {
		t.Fatalf("%s has %d lines, there are %d kinds", kindsFile, len(lines), len(Kinds()))
	}
	for i, line := range lines {
		want := examples[Kinds()[i]]
		var have Event
		dt, err := have.decode(line)
		if err != nil {
			t.Errorf("%s: %v", want.Kind, err)
		}
		if dt != -1 {
			t.Errorf("%s: dt %d", want.Kind, dt)
		}
		if have != want {
			t.Errorf("%s reads back as\n%+v\nwant\n%+v", want.Kind, have, want)
		}
		if !json.Valid([]byte(line)) {
			t.Errorf("%s: encoding/json cannot read it", want.Kind)
		}
	}
}

func byteTable(t *testing.T) (lines []string) {
	t.Helper()
	b, err := os.ReadFile(kindsFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func TestEveryExampleHasEveryFieldOfItsKind(t *testing.T) {
	for _, k := range Kinds() {
		e := &examples[k]
		if err := e.Check(); err != nil {
			t.Errorf("%s: %v", k, err)
		}
		if missing := (kindTable[k].required | kindTable[k].optional | anyKind) &^ e.fields(); missing != 0 {
			t.Errorf("the example of %s has no %s", k, missing)
		}
	}
}

func TestExamplesOfLedAndCheckpointAreBodiesOfTheirTypes(t *testing.T) {
	for k, body := range map[Kind]any{KindLed: new(LedBody), KindCheckpoint: new(CheckpointBody)} {
		dec := json.NewDecoder(strings.NewReader(examples[k].Body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(body); err != nil {
			t.Errorf("%s: %v", k, err)
		}
		again, err := json.Marshal(body)
		if err != nil || string(again) != examples[k].Body {
			t.Errorf("%s: a body with every field is\n%s\nthe example has\n%s", k, again, examples[k].Body)
		}
	}
	var led LedBody
	_ = json.Unmarshal([]byte(examples[KindLed].Body), &led)
	if key, err := base64.RawURLEncoding.DecodeString(led.PublicKey); err != nil || len(key) != 32 {
		t.Errorf("the example's key is no Ed25519 key: %v", err)
	}
}
