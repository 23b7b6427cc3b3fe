"""Signatures of kernels: compiled, loaded, run, captured."""
# ruff: noqa: E501 a signature reads best as a row

from __future__ import annotations

from typing import Final

from console.enginelog.signatures_model import Kind, Signature, sig

_JOBS: Final = "set MAX_JOBS=2 and FLASHINFER_NVCC_THREADS=1, use prebuilt kernels, keep the caches between boots"
_IMAGE: Final = "use an image built for this GPU (GB10 is sm_121: TORCH_CUDA_ARCH_LIST=12.1a)"
_COMBO: Final = "choose a backend, KV cache type, quantization and block size that go together"

KERNELS: Final[tuple[Signature, ...]] = (
    sig("host_oom_during_jit", ("code=137", "Killed signal terminated program", "fatal error: Killed"), r"FAILED: \[code=137\]|Killed signal terminated program (?P<what>\S{1,40})|nvcc[^\n]{0,60}\bKilled\b",
        "A compiler was killed while kernels were built: the node ran out of memory.", _JOBS, weight=93),
    sig("jit_build_failed", ("ninja: build stopped", "Ninja build failed", "FAILED: [code=", "Error building extension", "Ninja is required"), "",
        "Kernels could not be compiled on the node.", _JOBS + "; the compiler's own words stand above", weight=76),
    sig("jit_build_failed", ("nvcc fatal", "nvcc not found", "Could not find nvcc", "CUDA_HOME", "fatal error: ", "ptxas fatal"), r"nvcc fatal\s{0,3}: [^\n]{0,160}|Could not find nvcc|nvcc not found|CUDA_HOME environment variable is not set|fatal error: [\w./+-]{1,120}\.(?:h|hpp|cuh): No such file|ptxas fatal",
        "The image lacks what compiling kernels needs, or its compiler refused.", "use an image with the CUDA toolkit that matches its torch, or prebuilt kernels", weight=80),
    sig("gpu_arch_mismatch", ("no kernel image is available", "No supported CUDA architectures found", "not compatible with the current PyTorch installation", "SM120", "sm_121", "sm_120", "sm121", "unsupported gpu architecture", "Unsupported gpu architecture", "cudaErrorNoKernelImageForDevice", "no kernel image"),
        r"no kernel image is available for execution on the device|No supported CUDA architectures found for major versions|cudaErrorNoKernelImageForDevice|sm121_\w{0,80}\.cuh|[uU]nsupported gpu architecture '(?P<arch>\w{1,20})'|CUDA capability sm_(?P<cap>\d{2,3}) is not compatible with the current PyTorch",
        "The image has no kernels for this GPU.", _IMAGE, weight=86),
    sig("gpu_arch_mismatch", "only supports", r"[Kk]ernel only supports? (?P<arch>(?:sm|SM)_?\d{2,4}\w{0,2})",
        "A kernel of the image runs on {arch} alone, and this GPU is another.", _IMAGE + ", or choose another backend", weight=87),
    sig("gpu_arch_mismatch", "FlashInfer requires", r"FlashInfer requires (?:GPUs with )?(?P<arch>sm_?\d{2,4}\w?)",
        "FlashInfer was built without this GPU's architecture, or found no GPU ({arch} or higher).", _IMAGE + ", or choose another backend", weight=84),
    sig("gpu_arch_mismatch", ("requires compute capability", "compute capability", "device capability", "Only supports SM", "is not supported on this GPU", "only supported on CUDA"), r"(?:is )?only supported on (?:devices? with )?compute capability|requires (?:a GPU with )?compute capability|Minimum capability: (?P<minimum>\d{1,3})\.? Current capability: (?P<current>\d{1,3})|not supported (?:for|on|by) (?:the )?(?:current |this )?(?:GPU|device|compute capability)|Only supports? SM\d{2,3}",
        "A part of the engine does not support this GPU.", _IMAGE + ", or choose another backend", weight=72),
    sig("unsupported_backend_combo", "No common block size for", r"No common block size for (?P<size>\d{1,6})",
        "The attention backends have no KV block size in common with {size}.", "give --block-size 128 (what the indexer's backend takes)", weight=93, stage="kv cache"),
    sig("unsupported_backend_combo", ("block_kv == 32", "block_kv == 64"), r"block_kv == 32 (?:\|\||or)|block_kv == 64",
        "DeepGEMM refuses this KV block size on this GPU.", "use an image with the patched DeepGEMM, or another --block-size", weight=90),
    sig("unsupported_backend_combo", ("No valid attention backend found", "Selected backend", "is not valid for this configuration", "No suitable attention backend"), r"No (?:valid|suitable) attention backend[^\n]{0,200}|Selected backend (?P<backend>\S{1,80}) is not valid for this configuration[^\n]{0,200}",
        "No attention backend takes this model's head size, KV type and block size on this GPU.", _COMBO, weight=88),
    sig("unsupported_backend_combo", ("is not supported", "not supported", "does not support", "No NvFp4 MoE backend", "MoE backend", "No FP8 MoE backend", "Unsupported FA version", "cannot be used with", "is not compatible with"),
        r"(?:fp8|FP8|nvfp4|NVFP4|mxfp[48]|MXFP[48]|[Qq]uantization(?: method)?|kv[_ -]cache[_ -]dtype|KV cache dtype|attention backend|[Bb]ackend|block[_ ]size|MLA|FlashMLA|FlashInfer|Marlin|MoE backend|MoE kernel)[^\n]{0,120}(?:is not supported|not supported|does not support|is not compatible|cannot be used)|No (?:NvFp4|FP8|MXFP4|Mxfp4) MoE backend[^\n]{0,200}|Unsupported FA version",
        "Quantization, KV type and backend do not go together.", _COMBO, weight=64),
    sig("unsupported_backend_combo", ("to be one of", "Failed to find a kernel that can implement", "only supports", "does not support the deployment configuration"), r"expects? (?P<what>\w{0,20}backend|\w{0,20}dtype) to be one of[^\n]{0,200}|Failed to find a kernel that can implement the (?P<layer>[\w ]{1,60})|Flash(?:Attention|Infer|MLA)\w{0,10}[^\n]{0,60} only supports? [^\n]{1,80}|backend '?(?P<backend>[\w\-.]{1,60})'? does not support the deployment configuration[^\n]{0,160}",
        "No backend of this image does what the model and the recipe ask for together.", _COMBO, weight=82),
    sig("unsupported_backend_combo", ("Head dimension is not supported", "head size", "head_size"), r"[Hh]ead (?:size|dimension|dim) (?P<size>\d{1,5})? ?is not supported|head_size (?P<size2>\d{1,5}) is not supported",
        "The attention backend does not take this head size.", _COMBO, weight=70),
    sig("kernel_runtime_failure", "persistent_topk", "",
        "The indexer's top-k kernel failed (long contexts on sm_12x).", "use an image with the patched indexer, or a shorter context", weight=86),
    sig("illegal_memory_access", ("illegal memory access", "cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS"), "",
        "A kernel touched memory that is not its own.", "try another attention or MoE backend, or --enforce-eager (SGLang: --disable-cuda-graph), to find which kernel; CUDA_LAUNCH_BLOCKING=1 names it", weight=84),
    sig("kernel_runtime_failure", ("misaligned address", "device-side assert triggered", "unspecified launch failure", "illegal instruction was encountered", "CUBLAS_STATUS", "CUDNN_STATUS", "invalid argument", "cutlass", "CUTLASS", "invalid configuration argument", "too many resources requested"),
        r"misaligned address|device-side assert triggered|unspecified launch failure|illegal instruction was encountered|CUBLAS_STATUS_(?!ALLOC_FAILED)\w{1,40}|CUDNN_STATUS_\w{1,40}|CUDA error: (?:invalid argument|invalid configuration argument|too many resources requested)|Error Internal|cutlass[^\n]{0,80}(?:[Ff]ailed|[Ee]rror)|Failed to (?:run|initialize) (?:the )?(?:cutlass|CUTLASS|TMA)",
        "A kernel failed on the device.", "try another backend or --enforce-eager (SGLang: --disable-cuda-graph); CUDA_LAUNCH_BLOCKING=1 names the kernel", weight=74),
    sig("kernel_runtime_failure", ("CUDA error: unknown error", "uncorrectable ECC", "Xid"), r"CUDA error: (?:unknown error|uncorrectable ECC error encountered)|NVRM: Xid \([^)]{0,60}\): \d{1,4}",
        "The GPU itself reported a fault.", "see dmesg for Xid lines on that node; reset or power-cycle it", weight=75),
    # Whatever else CUDA says, in its own words; the rows above know more of theirs.
    sig("kernel_runtime_failure", ("CUDA error: ", "CUDA driver error: ", "Triton Error [CUDA]: "), r"(?:CUDA (?:driver )?error|Triton Error \[CUDA\]): (?P<why>[a-z][^\n]{1,120}?)(?: Search for|\. |$)",
        "A kernel or the device failed: {why}.", "CUDA_LAUNCH_BLOCKING=1 names the kernel; see dmesg for Xid lines of that moment on that node", weight=60),
    sig("kernel_module_load_failed", ("undefined symbol", "cannot open shared object file", "GLIBC_", "GLIBCXX_", "CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid", "Failed to load", "failed to load module"), r"undefined symbol: (?P<symbol>\S{1,120})|(?P<library>[\w.+-]{1,80}\.so[\w.]{0,20}): cannot open shared object file|version `GLIBC(?:XX)?_[\d.]{1,12}' not found|device kernel image is invalid|CUDA_ERROR_INVALID_SOURCE|[Ff]ailed to load (?:cubin|module|kernel)",
        "A compiled part of the image cannot be loaded.", "the image mixes builds that do not match: use one whose torch, CUDA and kernels were built together", weight=82),
    sig("cudagraph_capture_failed", ("operation not permitted when stream is capturing", "operation failed due to a previous error during capture", "cudaErrorStreamCapture", "CUDAGraph", "during graph capture", "CUDA graph"), r"operation not permitted when stream is capturing|operation failed due to a previous error during capture|cudaErrorStreamCapture\w{1,40}|[Cc]annot capture CUDA graph",
        "CUDA graphs could not be captured.", "start with --enforce-eager, or smaller --cudagraph-capture-sizes; then look for the operation that does not allow it", weight=78),
    # What it tells of is the cause where it is known.
    sig("cudagraph_capture_failed", "Capture cuda graph failed", r"Capture cuda graph failed: ?(?P<why>[^\n]{0,160})",
        "CUDA graphs could not be captured: {why}.", "start with --enforce-eager (SGLang: --disable-cuda-graph), or fewer graph sizes; then look for the operation that does not allow it", weight=58),
    sig("compiler_failed", ("BackendCompilerFailed", "InductorError", "torch._dynamo.exc", "triton.compiler.errors", "CompilationError", "OutOfResources", "PassManager::run failed", "PTXASError", "Internal Triton PTX codegen error", "LoweringException", "torch._inductor.exc"), r"BackendCompilerFailed|InductorError[^\n]{0,120}|torch\._dynamo\.exc\.\w{1,60}|triton\.compiler\.errors\.\w{1,60}|triton[\w.]{0,40}OutOfResources|CompilationError|PassManager::run failed|PTXASError|Internal Triton PTX codegen error|LoweringException",
        "The compiler (torch.compile, Inductor or Triton) failed.", "start with --enforce-eager or -O0; a Triton that knows this GPU needs a newer ptxas (TRITON_PTXAS_PATH)", weight=83),
    sig("compiler_failed", "is not defined for option 'gpu-name'", r"Value '(?P<arch>sm_\w{1,8})' is not defined for option 'gpu-name'",
        "Triton's assembler does not know this GPU ({arch}).", "point TRITON_PTXAS_PATH at the ptxas of a CUDA toolkit that knows it, or use an image with a newer Triton", weight=86),
    sig("compiler_failed", "out of resource", r"out of resource: shared memory, Required: (?P<need>\d{1,9}), Hardware limit: (?P<limit>\d{1,9})",
        "A Triton kernel asks for {need} bytes of shared memory; this GPU has {limit}.", "another attention or MoE backend, or smaller block sizes for that kernel", weight=85),
    sig("compiler_failed", ("Failed to find C compiler", "gcc failed", "returned non-zero exit status", "Python.h: No such file"), r"Failed to find C compiler|Python\.h: No such file|Command '\[?'?(?:/usr/bin/)?(?:gcc|cc|clang)[^\n]{0,200}returned non-zero exit status",
        "Triton found no working C compiler in the image.", "use an image with gcc and the Python headers", weight=82),
    sig("driver_too_old", "forward compatibility was attempted", r"forward compatibility was attempted on non supported HW",
        "The image brings CUDA libraries for a newer driver than the node's, and this GPU does not take them.", "update the driver on that node, or use an image for its CUDA version; the image's compat libraries must not be in front (LD_LIBRARY_PATH, /usr/local/cuda/compat)", weight=90),
    sig("driver_too_old", ("driver version is insufficient", "driver on your system is too old", "unsatisfied condition: cuda>=", "CUDA driver version", "unsupported toolchain", "the provided PTX was compiled with"), r"CUDA driver version is insufficient for CUDA runtime version|NVIDIA driver on your system is too old|unsatisfied condition: cuda>=(?P<cuda>[\d.]{1,8})|the provided PTX was compiled with an unsupported toolchain",
        "The node's driver is older than the image's CUDA needs.", "update the driver on that node, or use an image for its CUDA version", weight=90),
    sig("no_gpu_runtime", ("CUDA driver initialization failed", "system not yet initialized", "Failed to initialize NVML", "cudaErrorSystemNotReady"), r"CUDA driver initialization failed|system not yet initialized|cudaErrorSystemNotReady|Failed to initialize NVML: (?P<why>[^\n]{1,80})",
        "The GPU's driver does not start for this container ({why}).", "run nvidia-smi on the node, then in a container; restart the container engine, then the node", weight=80),
    sig("no_gpu_runtime", "active drivers", r"(?P<count>\d{1,3}) active drivers \([^\n]{0,200}There should only be one",
        "Triton found {count} GPU drivers where there must be one: with 0 the container sees no GPU.", "run nvidia-smi in the container (`docker run --gpus all`); with more than one, two Triton backends are installed in the image", weight=84),
    sig("no_gpu_runtime", "CUDA unknown error", r"CUDA unknown error - this may be due to",
        "CUDA does not start in this container.", "run nvidia-smi on the node, then in a container (`docker run --gpus all`); restart the container engine, then the node", weight=82),
    sig("config_rejected", "invalid device ordinal", r"CUDA (?:driver )?error: invalid device ordinal",
        "The engine asks for a GPU that this node does not have.", "start no more ranks on a node than it has GPUs (a DGX Spark has one: --nnodes and --node-rank, or Ray with every node joined), and check CUDA_VISIBLE_DEVICES", weight=80, stage="rendezvous"),
    sig("no_gpu_runtime", ("No CUDA GPUs are available", "Found no NVIDIA driver", "no CUDA-capable device is detected", "Failed to infer device type", "Can't initialize NVML", "Driver/library version mismatch", "nvidia-container-cli: initialization error", "NVIDIA Driver was not detected"), r"No CUDA GPUs are available|Found no NVIDIA driver|no CUDA-capable device is detected|Failed to infer device type|Driver/library version mismatch|nvidia-container-cli: initialization error[^\n]{0,120}",
        "The container sees no GPU.", "check nvidia-smi on the node and the container toolkit (`docker run --gpus all`); after a driver update reboot the node", weight=84),
    sig("host_oom_during_jit", "No available shared memory broadcast block found", r"No available shared memory broadcast block found in (?P<seconds>\d{1,5}) seconds",
        "Workers were waited for longer than {seconds} s: they compile, or hang.", "no fault while kernels compile; with a quiet CPU and no other line it is a hang", kind=Kind.HINT, weight=5),
)  # fmt: skip
