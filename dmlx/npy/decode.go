package npy

// DecodeFloat32 reads the contents of a .npy file as [ReadFloat32] reads the file.
func DecodeFloat32(file []byte) (values []float32, shape []int, err error) {
	return decode[float32](file)
}

// DecodeInt64 reads the contents of a .npy file as [ReadInt64] reads the file.
func DecodeInt64(file []byte) (values []int64, shape []int, err error) { return decode[int64](file) }
