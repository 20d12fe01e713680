package dmlx

// Embeddings are labeled vectors on the host: a batch, or a whole set. Rows need not be normalized.
type Embeddings struct {
	Values []float32 // [N, Dim] row by row.
	N, Dim int       // N of 0 is one row for each label.
	Labels []int64   // [N]

	// Triplets are taken instead of mined ones where a rule or a loss is, if there are any. Only their indices are read.
	Triplets []Triplet
}

// Triplet is one triplet of a batch, with what a rule makes of it.
type Triplet struct {
	Anchor, Positive, Negative int     // Rows of the batch.
	Sap, San                   float32 // Cosine similarities.
	PairPositive, PairNegative float32 // P₊ (the mask applied) and P₋.
	Weight                     float32 // T
}
