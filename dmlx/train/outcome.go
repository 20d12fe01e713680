package train

import "github.com/gradient-surgery/dml/dmlx/heads"

// Outcome is the result of a training.
type Outcome struct {
	Measures
	Seconds float64           // Time of training and evaluation, without epochs that were interrupted.
	Files   map[string]string // SHA-256 of the files that it wrote, except the checkpoint, by name.
	// Devices are the numbers of devices that it ran on, one after the other: [4, 1] means four devices until it was
	// stopped, and then one. It is nil for one device all the time.
	Devices []int
}

// Measures are the measures of the test set after the last epoch, as fractions. Recall is nil if the training
// diverged to NaN or Inf.
type Measures struct {
	// Recall is Recall@K by K.
	Recall map[int]float64 `json:"recall,omitempty"`
	// HeldOutRecall is Recall@K of the held-out training classes, ranked against each other.
	HeldOutRecall map[int]float64 `json:"held_out_recall,omitempty"`

	MAPAtR      float64 `json:"map_at_r"`
	RPrecision  float64 `json:"r_precision"`
	Queries     int     `json:"queries"`
	LoneQueries int     `json:"lone_queries"` // Queries without a match, which count in no measure.
	// Overlap is [retrieval.Overlap] of the similarities to the nearest positive and the nearest negative (Figure 4).
	Overlap float64 `json:"overlap"`
	// Compact is the share of test images with both similarities above 0.9 (Figure 5).
	Compact float64 `json:"compact"`

	// Head says what was chosen for a head with [heads.ChosenStart].
	Head *heads.Choice `json:"head,omitempty"`

	// Diverged says how the training failed, or is "". Tables show such a result and leave it out of means.
	Diverged string `json:"diverged,omitempty"`
}

// NotFiniteError says which embedding has a value that is NaN or Inf.
type NotFiniteError struct{ what string }

func (e *NotFiniteError) Error() string { return "not finite: " + e.what }

// The files of a training beside its checkpoint and triplets.
const (
	MetricsFile           = "metrics.jsonl"          // An [Epoch] a line.
	EmbeddingsFile        = "embeddings.npy"         // Of the test set, or its queries: float32 [N, Dim], of length 1.
	LabelsFile            = "labels.npy"             // Their classes, int64 [N].
	GalleryEmbeddingsFile = "gallery_embeddings.npy" // Of the gallery, if the set has one of its own.
	GalleryLabelsFile     = "gallery_labels.npy"
)

var outputs = []string{MetricsFile, EmbeddingsFile, LabelsFile, GalleryEmbeddingsFile, GalleryLabelsFile}
