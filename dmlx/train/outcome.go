package train

// Outcome is what a training ended with.
type Outcome struct {
	Measures
	Seconds float64           // Of training and evaluation, without those of stopped attempts' lost epochs.
	Files   map[string]string // The files that it wrote beside the checkpoint, with their SHA-256.
}

// Measures are those of the test set after the last epoch, as fractions. Without Recall, the training diverged to values that
// are not finite.
type Measures struct {
	Recall map[int]float64 `json:"recall,omitempty"`
	// HeldOutRecall is the recall of the training classes that are held out, ranked against each other.
	HeldOutRecall map[int]float64 `json:"held_out_recall,omitempty"`

	MAPAtR      float64 `json:"map_at_r"`
	RPrecision  float64 `json:"r_precision"`
	Queries     int     `json:"queries"`
	LoneQueries int     `json:"lone_queries"`
	// Overlap is how much the histograms of nearest-positive and nearest-negative similarities share (Figure 4).
	Overlap float64 `json:"overlap"`
	// Compact is the share of test anchors with both similarities above 0.9 (Figure 5).
	Compact float64 `json:"compact"`

	// Diverged says how the training went wrong, if it did: such a result is shown and never averaged.
	Diverged string `json:"diverged,omitempty"`
}

// NotFiniteError says that weights embed images as NaN or Inf.
type NotFiniteError struct{ what string }

func (e *NotFiniteError) Error() string { return "not finite: " + e.what }

const MetricsFile = "metrics.jsonl"

const EmbeddingsFile = "embeddings.npy" // The test set's, or the queries', float32 [N, Dim], of length 1.

const LabelsFile = "labels.npy" // Their classes, int64 [N].

const GalleryEmbeddingsFile = "gallery_embeddings.npy" // The gallery's, where it is a set of its own.

const GalleryLabelsFile = "gallery_labels.npy"
