// Package definition reads definitions of tasks and groups as people write
// them: YAML, or JSON, in files, folders and on standard input.
//
// Parse reads one text, Load many files. What comes out is complete and checked
// as the leader checks it; what is wrong comes back as *Error, each problem with
// its line, its field and what to write instead. A text goes through these
// steps, and each adds to one list of problems:
//
//  1. encoding (encoding.go) and documents (documents.go)
//  2. YAML syntax (syntax.go) and structure (structure.go, scalar.go), or JSON
//     (json.go): a tree of nodes that know their place (node.go)
//  3. the JSON Schema (schema.go), its verdict put into words (explain.go)
//  4. decoding by the Go types (fit.go)
//  5. events.Definition.Complete and the caller's check (check.go)
//
// Invariants:
//
//	D1  All or nothing: with an error there are no definitions, not even of the
//	    documents and files that are right.
//	D2  Every problem is reported in one call, as far as it can be told apart
//	    from the consequences of another one. One field gets one complaint.
//	D3  Every problem names its file; its line wherever the text has one; and
//	    the field, unless the text has no fields yet.
//	D4  What is accepted means one thing, by the rules below: where people who
//	    know YAML 1.1 and people who know YAML 1.2 would read a value differently,
//	    it is refused, or the field decides.
//	D5  Nothing is changed on the way: numbers keep their digits, parameters
//	    their order, texts their characters.
//	D6  What Definition.Encode writes is read back as an equal definition.
//	D7  Cost is bounded by the size of the text, whatever it says; the bounds are
//	    below. No text makes Parse panic.
//
// How YAML is read:
//
//   - A field that is a text takes what is quoted, and what YAML 1.2 reads as a
//     text: title: on and country: no are texts. Dates are the text that stands
//     there. A number or true in such a field has to be put into quotes.
//   - In free values (params, external) yes, no, on and off without quotes are
//     refused, since YAML 1.1 reads them as booleans, and so is 12:30, which it
//     reads as a number. Dates are texts there too.
//   - Numbers are written as JSON writes them. Octal, hexadecimal, binary,
//     underscores, a plus sign, .5, .inf and .nan are refused, each with the
//     plain number to write.
//   - Keys are texts; other keys have to be put into quotes. A key that appears
//     twice is refused.
//   - An empty value (timeout:) is refused, except as params or inside free
//     values, where it is null.
//   - Anchors and aliases work within a document, and so do merge keys (<<): a
//     field of its own wins over a merged one, an earlier merged one over a later
//     one. Tags are refused, except !!str.
//   - Documents are separated by --- or ended by ...; empty ones are passed over.
//     %YAML is passed over, other directives are refused.
//   - A text that is JSON throughout is read as JSON, so that what is JSON but no
//     YAML works too: surrogate pairs, long keys. Several objects one after
//     another are several documents.
package definition

// Bounds of what is read. What passes one is refused.
const (
	MaxBytes     = 1 << 20 // bytes of a file
	MaxDocuments = 1000    // documents of a file
	MaxDepth     = 64      // lists and objects within each other
	MaxNodes     = 200_000 // values of a file, aliases and merges counted as often as they are used
	MaxExpanded  = 4 << 20 // bytes of texts and keys of a file, counted likewise
	MaxNumber    = 128     // bytes of a number

	MaxFiles       = 10_000   // files of one Load
	MaxTotalBytes  = 64 << 20 // bytes of one Load
	MaxFolderDepth = 32       // folders within each other
	MaxEntries     = 100_000  // files and folders looked at, of one Load

	MaxProblems = 1000 // problems kept of a file; the rest is counted
	MaxPrinted  = 50   // problems that an error prints; then how many more
)
