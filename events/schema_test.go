package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// The JSON Schemas of event lines, docs/schema/events: one per kind, generated
// from kindTable, fieldTable and the bounds.

const (
	schemaFolder = root + "/docs/schema/events"
	schemaURL    = "https://raw.githubusercontent.com/ax-scheduler/ax/main/docs/schema/events/"
)

func schemaFile(k Kind) string { return k.String() + ".schema.json" }

func TestEventSchemas(t *testing.T) {
	docs := kindDocs(t)
	wanted := map[string]bool{"README.md": true}
	for _, k := range Kinds() {
		wanted[schemaFile(k)] = true
		generated(t, schemaFolder+"/"+schemaFile(k), eventSchema(k, docs[k]))
	}
	files, err := os.ReadDir(schemaFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !wanted[f.Name()] {
			t.Errorf("%s/%s is of no kind; remove it", schemaFolder, f.Name())
		}
	}
}

// object is a JSON object whose fields keep their order: name, value, name, ….
func object(pairs ...any) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		var value bytes.Buffer
		enc := json.NewEncoder(&value)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(pairs[i+1]); err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "%q:%s", pairs[i], bytes.TrimSpace(value.Bytes()))
	}
	b.WriteByte('}')
	return b.Bytes()
}

func eventSchema(k Kind, doc string) string {
	info := &kindTable[k]
	required := []string{"kind"}
	properties := []any{
		"kind", object("const", info.name, "description", doc),
		"dt", object("type", "integer", "minimum", 1, "maximum", maxFrameSpan,
			"description", "microseconds from the frame's time to this event's, where that differs from the event before"),
	}
	for bit, f := range fieldTable {
		set := fieldSet(1) << bit
		if (info.required|info.optional|anyKind)&set == 0 {
			continue
		}
		if info.required&set != 0 {
			required = append(required, f.name)
		}
		properties = append(properties, f.name, fieldSchema(k, f))
	}
	schema := object(
		"$schema", "https://json-schema.org/draft/2020-12/schema",
		"$id", schemaURL+schemaFile(k),
		"title", "AX event: "+info.name,
		"description", doc+". One line of a frame in AX's log; see docs/log-format.md. A field that is zero or empty is absent.",
		"type", "object",
		"required", required,
		"additionalProperties", false,
		"properties", object(properties...),
	)
	var out bytes.Buffer
	if err := json.Indent(&out, schema, "", "  "); err != nil {
		panic(err)
	}
	return out.String() + "\n"
}

func fieldSchema(k Kind, f fieldInfo) json.RawMessage {
	if k == KindIncident && (f.name == "from" || f.name == "count") {
		f.typ, f.doc = "count", map[string]string{"from": "sequence of the first message it is about", "count": "how many messages it is about"}[f.name]
	}
	switch f.typ {
	case "name", "text":
		return object("type", "string", "minLength", 1, "maxLength", bounds[f.name], "description", f.doc+fmt.Sprintf("; at most %d bytes", bound(k, f.name)))
	case "position":
		return object("type", "string", "pattern", `^[1-9][0-9]*\.(0|[1-9][0-9]*)$`, "description", f.doc+"; a position in the log, <sequence>.<index>")
	case "count":
		most := int64(math.MaxInt64)
		if f.name == "depth" {
			most = MaxDepth
		}
		return object("type", "integer", "minimum", 1, "maximum", most, "description", f.doc)
	case "time":
		return object("type", "integer", "minimum", 1, "maximum", int64(math.MaxInt64), "description", f.doc+"; Unix milliseconds, UTC")
	case "bool":
		return object("const", true, "description", f.doc)
	case "kind":
		return object("enum", Kinds(), "description", f.doc)
	case "json":
		doc := f.doc + fmt.Sprintf("; any JSON, at most %d bytes", bounds[f.name])
		if f.name != "body" {
			return object("description", doc)
		}
		switch k {
		case KindLed:
			return bodySchema(reflect.TypeFor[LedBody](), "who leads, and with what", map[string]string{
				"server": "name of the server that leads", "version": "version of its binary", "zones": "version of its time zone data",
				"publicKey": "Ed25519 public key, base64url without padding: it checks the signatures of checkpoints",
				"boot":      "boot of the machine that holds the log itself; absent: the log is elsewhere",
			})
		case KindCheckpoint:
			return bodySchema(reflect.TypeFor[CheckpointBody](), "hash and digest of everything up to a position; one without a digest only removes old rows", map[string]string{
				"position": "sequence up to and with which it holds", "hash": "chain at that sequence, 64 hexadecimal digits",
				"digest": "SHA-256 of the views' canonical dump there, 64 hexadecimal digits", "rows": "rows of that dump",
				"trim": "how many rows of finished instances leave the views with it", "signature": "Ed25519 signature, base64url without padding, of the text in docs/log-format.md",
			})
		case KindDefined:
			doc = "the definition, complete with every default"
		case KindRestated:
			doc = "one live fact with its whole state; what is in it belongs to the views"
		}
		return object("type", "object", "description", doc+fmt.Sprintf("; at most %d bytes", bound(k, f.name)))
	}
	panic("fieldTable has the type " + f.typ + ", which no schema knows")
}

// bodySchema gives the schema of a body from its Go type. Further fields may
// come with later versions.
func bodySchema(t reflect.Type, doc string, docs map[string]string) json.RawMessage {
	var properties []any
	var required []string
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		typ := "string"
		if k := t.Field(i).Type.Kind(); k == reflect.Int64 || k == reflect.Uint64 {
			typ = "integer"
		}
		if docs[name] == "" {
			panic(t.Name() + ": say what " + name + " is")
		}
		if !strings.HasPrefix(options, "omit") {
			required = append(required, name)
		}
		properties = append(properties, name, object("type", typ, "description", docs[name]))
	}
	if required == nil {
		return object("type", "object", "description", doc, "properties", object(properties...))
	}
	return object("type", "object", "description", doc, "required", required, "properties", object(properties...))
}

// publishedSchemas compiles what is in docs/schema/events.
func publishedSchemas(t *testing.T) (all [NumKinds]*jsonschema.Schema) {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, k := range Kinds() {
		s, err := c.Compile(schemaFolder + "/" + schemaFile(k))
		if err != nil {
			t.Fatal(err)
		}
		if s.DraftVersion != 2020 {
			t.Errorf("%s is of draft %d", schemaFile(k), s.DraftVersion)
		}
		all[k] = s
	}
	return all
}

func validate(s *jsonschema.Schema, text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func TestByteTableFitsTheSchemas(t *testing.T) {
	schemas := publishedSchemas(t)
	for i, text := range byteTable(t) {
		for _, k := range Kinds() {
			err := validate(schemas[k], text)
			if fits := k == Kinds()[i]; fits && err != nil {
				t.Errorf("%s: %v", k, err)
			} else if !fits && err == nil {
				t.Errorf("the schema of %s takes an event of kind %s", k, Kinds()[i])
			}
		}
	}
}

// TestSchemasAskForWhatTheCodecAsksFor walks kinds × fields: a schema and the
// codec refuse the same lines.
func TestSchemasAskForWhatTheCodecAsksFor(t *testing.T) {
	schemas := publishedSchemas(t)
	for _, k := range Kinds() {
		minimal := func() Event {
			e := minimal(k)
			if k == KindLed || k == KindCheckpoint { // the codec leaves their bodies to the fold
				e.Body = examples[k].Body
			}
			return e
		}
		same := func(what, text string) {
			var e Event
			_, codec := e.decode(text)
			if schema := validate(schemas[k], text); (schema == nil) != (codec == nil) {
				t.Errorf("%s %s: the schema says %v, the codec %v\n%s", k, what, schema, codec, text)
			}
		}
		full, least := examples[k], minimal()
		same("with everything", line(&full))
		same("with what it requires", line(&least))
		same("with a field that is none", withField(&least, "unheardOf", `1`))
		same("with dt", withField(&least, "dt", `1`))
		same("with a dt of 0", withField(&least, "dt", `0`))
		same("without a kind", strings.Replace(line(&least), `"kind":"`+k.String()+`"`, `"dt":1`, 1))
		for bit, f := range fieldTable {
			e := minimal()
			if field(&e, bit).IsZero() {
				set(&e, bit, sample(bit))
				same("with "+f.name, line(&e))
			} else {
				field(&e, bit).SetZero()
				same("without "+f.name, line(&e))
				if validate(schemas[k], line(&e)) == nil {
					t.Errorf("the schema of %s does not miss %s", k, f.name)
				}
			}
			for _, value := range map[string][]string{
				"name": {`""`, `1`, `null`}, "text": {`""`, `1`, `["x"]`}, "position": {`""`, `"7"`, `"0.1"`, `7.1`}, "count": {`0`, `-1`, `"1"`, `1.5`, `1001`, `9223372036854775808`},
				"time": {`0`, `-1`, `"1"`}, "bool": {`false`, `1`, `"true"`}, "kind": {`"x"`, `1`}, "json": {},
			}[f.typ] {
				field(&e, bit).SetZero()
				same("with "+f.name+" "+value, withField(&e, f.name, value))
			}
			if n := bounds[f.name]; n > 0 && f.typ != "json" {
				field(&e, bit).SetZero()
				same("with a long "+f.name, withField(&e, f.name, `"`+strings.Repeat("x", n)+`"`))
				same("with a too long "+f.name, withField(&e, f.name, `"`+strings.Repeat("x", n+1)+`"`))
			}
		}
	}
}

func TestEveryValidEventFitsItsSchema(t *testing.T) {
	schemas := publishedSchemas(t)
	rapid.Check(t, func(t *rapid.T) {
		e := someEvent().Draw(t, "event")
		if e.Kind == KindLed || e.Kind == KindCheckpoint {
			e.Body = examples[e.Kind].Body
		}
		if err := validate(schemas[e.Kind], line(&e)); err != nil {
			t.Fatal(err)
		}
	})
}
