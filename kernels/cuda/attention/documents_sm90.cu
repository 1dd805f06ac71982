// kernels/cuda/attention/documents_sm90.cu - the bounds of each token's document, from `starts`
// Shapes   starts [documents + 1] i32 -> bounds [tokens]; tokens outside of all documents: empty
// Cost     a binary search a token
#include "kernels/attention.h"
#include "kernels/cuda/attention/sm90.h"

namespace bt_attention_sm90
{
namespace
{

__global__ void __launch_bounds__(256) bounds_of_documents(const shape s, bounds *to)
{
    const int token = (int)(blockIdx.x * 256 + threadIdx.x);
    if (token < s.q_tokens) {
        const bt_attention_range of = bt_attention_document(&s, token, s.q_tokens);
        to[token] = {(int)of.begin, (int)of.end};
    }
}

} // namespace

bt_status find_documents(const bt_launch *launch, const shape &s, bounds *to)
{
    const cudaStream_t stream = bt_cuda_stream(launch);
    bounds_of_documents<<<(unsigned)bt_div_up(s.q_tokens, 256), 256, 0, stream>>>(s, to);
    return bt_cuda_launched("attention, documents");
}

} // namespace bt_attention_sm90
