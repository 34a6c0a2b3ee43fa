/* A libcudnn.so.9 that convolves, in one channel, whatever the descriptors say. The memory of the stand-in for libcuda is the
 * host's. */
#include "answers.h"

enum { SUCCESS = 0, BAD_PARAM = 2000 };

struct descriptor {
	int n, c, h, w;
	int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, mode;
};

size_t cudnnGetVersion(void)
{
	return 91002;
}

const char *cudnnGetErrorString(int code)
{
	return code == 1008 ? "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED" : "CUDNN_STATUS_OF_THE_TEST";
}

static int make(void **out)
{
	*out = calloc(1, sizeof(struct descriptor));
	return SUCCESS;
}

int cudnnCreate(void **out)
{
	MAY_END(-1);
	return make(out);
}

int cudnnCreateTensorDescriptor(void **out)
{
	MAY_END(-1);
	return make(out);
}

int cudnnCreateFilterDescriptor(void **out)
{
	MAY_END(-1);
	return make(out);
}

int cudnnCreateConvolutionDescriptor(void **out)
{
	MAY_END(-1);
	return make(out);
}

int cudnnSetTensor4dDescriptor(struct descriptor *tensor, int format, int kind, int n, int c, int h, int w)
{
	MAY_END(-1);
	*tensor = (struct descriptor){ .n = n, .c = c, .h = h, .w = w };
	return format || kind || n != 1 || c != 1 ? BAD_PARAM : SUCCESS;
}

int cudnnSetFilter4dDescriptor(struct descriptor *filter, int kind, int format, int k, int c, int h, int w)
{
	MAY_END(-1);
	*filter = (struct descriptor){ .n = k, .c = c, .h = h, .w = w };
	return format || kind || k != 1 || c != 1 ? BAD_PARAM : SUCCESS;
}

int cudnnSetConvolution2dDescriptor(struct descriptor *convolution, int pad_h, int pad_w, int stride_h, int stride_w,
				    int dilation_h, int dilation_w, int mode, int kind)
{
	MAY_END(-1);
	*convolution = (struct descriptor){ .pad_h = pad_h, .pad_w = pad_w, .stride_h = stride_h, .stride_w = stride_w,
					    .dilation_h = dilation_h, .dilation_w = dilation_w, .mode = mode };
	return kind ? BAD_PARAM : SUCCESS;
}

int cudnnGetConvolutionForwardWorkspaceSize(void *handle, void *input, void *filter, void *convolution, void *output,
					    int algorithm, size_t *bytes)
{
	MAY_END(-1);
	*bytes = 64;
	return handle && input && filter && convolution && output && !algorithm ? SUCCESS : BAD_PARAM;
}

/* Mode 1 is cross-correlation; 0 turns the filter round. */
int cudnnConvolutionForward(void *handle, const float *alpha, const struct descriptor *x, const float *image,
			    const struct descriptor *f, const float *filter, const struct descriptor *how, int algorithm,
			    void *workspace, size_t bytes, const float *beta, const struct descriptor *y, float *out)
{
	MAY_END(-1);
	if (!handle || algorithm || !workspace || bytes < 64)
		return BAD_PARAM;
	memset(workspace, 0, bytes);
	for (int row = 0; row < y->h; row++)
		for (int column = 0; column < y->w; column++) {
			float sum = 0;
			for (int i = 0; i < f->h * f->w; i++) {
				int r = row * how->stride_h - how->pad_h + i / f->w * how->dilation_h;
				int c = column * how->stride_w - how->pad_w + i % f->w * how->dilation_w;
				int weight = how->mode == 1 ? i : f->h * f->w - 1 - i;
				if (r >= 0 && r < x->h && c >= 0 && c < x->w)
					sum += image[r * x->w + c] * filter[weight];
			}
			float *result = &out[row * y->w + column];
			*result = *alpha * sum + (*beta == 0 ? 0 : *beta * *result);
		}
	if (number(-1, "blurred", 0))
		out[0] += 1;
	return SUCCESS;
}
