package datasets

import (
	"encoding/hex"
	"testing"
)

// The bytes are those of Pillow 12.0.0 and 13.0.0:
//
//	y, x, c = np.meshgrid(range(6), range(6), range(3), indexing="ij")
//	im = ((37*x + 61*y + 101*c + 13*x*y) % 256).astype(np.uint8)
//	Image.fromarray(im).crop((left, top, left+width, top+height)).resize((6, 6), Image.Resampling.BILINEAR).tobytes()
func TestResizedCropAsPillow(t *testing.T) {
	t.Parallel()
	im := &Images{N: 1, Size: 6, Labels: []int64{0}, Names: []string{"a"}}
	for y := range 6 {
		for x := range 6 {
			for c := range 3 {
				im.Pixels = append(im.Pixels, uint8(37*x+61*y+101*c+13*x*y))
			}
		}
	}
	for part, want := range map[Rectangle]string{
		{Left: 0, Top: 0, Width: 6, Height: 6}: "0065ca258aef4aaf146fd43994f95eb91e833da2076fd439a1066bd3389d056acf379c01" +
			"7adf44b91e83f85dc2379c0176db40b51a7fb71c810368cd4fb4199b0065e74cb13398fd" +
			"f459be4db217a60b70ff64c958bd22b1167b3196fb97fc61fd62c763c82dc92e932f94f9",
		{Left: 2, Top: 1, Width: 4, Height: 3}: "a1066bba1f84b140a52762c71e8368379c01b71c81b2377c955a7f387ea33c8166577c21" +
			"e247aca1666b5e8d325ab55a787d62963b60ce73988f74595c812687ac5194797e953a9f" +
			"799e437e63488f3459be63888f74b95479de4fb419755a3fa80d72da3fa48d72d73398fd",
		{Left: 3, Top: 0, Width: 2, Height: 6}: "6fd4396fd4397be04588ed5294f95e94f95ed3389dd3389d8e49ae4a59be056acf056acf" +
			"379c01379c014cb11661c62b76db4076db409b00659b0065b4197ece3398e74cb1e74cb1" +
			"ff64c9ff64c9c78291909f5a58bd2258bd2263c82d63c82d85954fa76171c92e93c92e93",
		{Left: 1, Top: 4, Width: 5, Height: 1}: "4db21790355ada3fa4b989836e9338b1167b4db21790355ada3fa4b989836e9338b1167b" +
			"4db21790355ada3fa4b989836e9338b1167b4db21790355ada3fa4b989836e9338b1167b" +
			"4db21790355ada3fa4b989836e9338b1167b4db21790355ada3fa4b989836e9338b1167b",
		{Left: 2, Top: 2, Width: 2, Height: 2}: "f85dc2f85dc2b87282778741379c01379c01f85dc2f85dc2b87282778741379c01379c01" +
			"c07a8ac07a8a9d74677b6e4558682258682287975187975183764d7e55487a34447a3444" +
			"4fb4194fb419687832823c4c9b00659b00654fb4194fb419687832823c4c9b00659b0065",
		{Left: 5, Top: 5, Width: 1, Height: 1}: "2f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f9" +
			"2f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f9" +
			"2f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f92f94f9",
	} {
		for _, flip := range []bool{false, true} {
			got := make([]uint8, len(im.Pixels))
			im.ResizedCrop(got, 0, part, flip)
			if flip { // Mirrored twice.
				for y := range 6 {
					for x := range 3 {
						for c := range 3 {
							a, b := &got[18*y+3*x+c], &got[18*y+3*(5-x)+c]
							*a, *b = *b, *a
						}
					}
				}
			}
			if text := hex.EncodeToString(got); text != want {
				t.Errorf("%+v, flip %v: %s, want %s", part, flip, text, want)
			}
		}
	}
}
