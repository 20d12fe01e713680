package backbone

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// LoRAAlpha is the metadata of weights with low-rank matrices: α of the factor α/rank.
const LoRAAlpha = "lora_alpha"

// The ends of the names of low-rank matrices, behind the name of their weight without ".weight", as PEFT has them.
const (
	lowRankA = ".lora_A.weight" // [rank, in]
	lowRankB = ".lora_B.weight" // [out, rank]
)

// LowRank names the matrices A [rank, in] and B [out, rank] beside a weight [out, in].
func LowRank(weight string) (a, b string) {
	name := strings.TrimSuffix(weight, ".weight")
	return name + lowRankA, name + lowRankB
}

// IsLowRankA and IsLowRankB report whether a weight is such a matrix, by its name.
func IsLowRankA(name string) bool { return strings.HasSuffix(name, lowRankA) }
func IsLowRankB(name string) bool { return strings.HasSuffix(name, lowRankB) }

// MergeLowRank returns weights, a safetensors file, with W + (α/rank)·B·A in place of each weight W that has low-rank
// matrices "….lora_A.weight" and "….lora_B.weight", and without these. Weights without the metadata [LoRAAlpha] are
// returned as they are.
func MergeLowRank(data []byte) ([]byte, error) {
	entries, meta, body, err := parseSafetensors(data)
	if err != nil || meta[LoRAAlpha] == "" {
		return data, err
	}
	alpha, err := strconv.ParseFloat(meta[LoRAAlpha], 64)
	if err != nil {
		return nil, fmt.Errorf("the metadata %s is %.40q: want a number", LoRAAlpha, meta[LoRAAlpha])
	}
	meta = maps.Clone(meta)
	delete(meta, LoRAAlpha)
	header, merged := map[string]any{metadataKey: meta}, []byte(nil)
	names := slices.Sorted(maps.Keys(entries))
	names = slices.DeleteFunc(names, func(name string) bool {
		return IsLowRankA(name) || IsLowRankB(name)
	})
	for _, name := range names {
		w, begin := entries[name], len(merged)
		if w.DType != "F32" {
			return nil, fmt.Errorf("%s is %s: want F32", name, w.DType)
		}
		values := w.values(body)
		nameA, nameB := LowRank(name)
		if a, there := entries[nameA]; there {
			b := entries[nameB]
			if len(w.Shape) != 2 || len(a.Shape) != 2 || a.DType != "F32" || b.DType != "F32" ||
				a.Shape[1] != w.Shape[1] || !slices.Equal(b.Shape, []int{w.Shape[0], a.Shape[0]}) {
				return nil, fmt.Errorf("the low-rank matrices of %s are of shapes %v and %v: they do not fit %v", name, a.Shape,
					b.Shape, w.Shape)
			}
			addProduct(values, b.values(body), a.values(body), a.Shape[0], alpha/float64(a.Shape[0]))
		}
		for _, x := range values {
			merged = binary.LittleEndian.AppendUint32(merged, math.Float32bits(x))
		}
		header[name] = entry{DType: "F32", Shape: slices.Concat([]int{}, w.Shape), Offsets: [2]int{begin, len(merged)}}
	}
	return safetensors(header, merged)
}

// addProduct adds scale·b·a to w [out, in], with b [out, rank] and a [rank, in].
func addProduct(w, b, a []float32, rank int, scale float64) {
	in := len(a) / rank
	for i := range w {
		sum := 0.0
		for k := range rank {
			sum += float64(b[i/in*rank+k]) * float64(a[k*in+i%in])
		}
		w[i] = float32(float64(w[i]) + scale*sum)
	}
}
