"""Signatures of the model's files, its code, and the arguments it is started with."""
# ruff: noqa: E501 a signature reads best as a row

from __future__ import annotations

from typing import Final

from console.enginelog.signatures_model import Signature, sig

_FLAG: Final = "fix the argument in the recipe; `vllm serve --help=all` of that image lists what it knows"
_VALUE: Final = "fix the value in the recipe; the engine's own words say which"
_MOUNT: Final = "check that the model's folder is mounted and complete on that node"

FILES: Final[tuple[Signature, ...]] = (
    sig("unrecognized_argument", "unrecognized arguments: ", r"error: unrecognized arguments: (?P<what>[^\n]{1,200})",
        "The engine does not know the argument {what}.", _FLAG, weight=94, stage="arguments"),
    sig("unrecognized_argument", ("error: ambiguous option", "No such option: ", "got an unexpected keyword argument"), r"error: ambiguous option: (?P<what>[^\n]{1,120})|No such option: (?P<what2>[^\n]{1,80})|(?:EngineArgs|ServerArgs)[\w.]{0,40}\(\) got an unexpected keyword argument '(?P<what3>\w{1,60})'",
        "The engine does not know one of its arguments.", _FLAG, weight=92, stage="arguments"),
    sig("config_rejected", "error: argument ", r"error: argument (?P<flag>[^:\n]{1,120}): (?P<why>[^\n]{1,240})",
        "The argument {flag} is refused: {why}.", _VALUE, weight=93, stage="arguments"),
    sig("config_rejected", "error: the following arguments are required", r"error: the following arguments are required: (?P<what>[^\n]{1,120})",
        "The argument {what} is missing.", _FLAG, weight=93, stage="arguments"),
    sig("config_rejected", "must be divisible by", r"must be divisible by (?P<what>n_predict|[^\n]{1,80})",
        "A number in the recipe must be divisible by {what}.", _VALUE, weight=87),
    sig("config_rejected", "validation error", r"(?:^|: )(?P<count>\d{1,3}) validation errors? for (?P<what>[\w.]{1,60})",
        "The engine refuses a value of {what}.", _VALUE, weight=84, follow=3, stage="arguments"),
    sig("config_rejected", ("is greater than the derived max_model_len", "max_num_batched_tokens", "world_size", "World size", "cannot be larger than", "Total number of attention heads"), r"User-specified max_model_len \((?P<length>\d{1,12})\) is greater than the derived max_model_len|max_num_batched_tokens \(\d{1,9}\) (?:is smaller|must be)[^\n]{0,120}|Total number of attention heads \((?P<heads>\d{1,5})\) must be divisible by tensor parallel size \((?P<tp>\d{1,4})\)|[Ww]orld[ _]size \(\d{1,6}\)[^\n]{0,40}(?:is larger than|must be|is not divisible)[^\n]{0,120}",
        "The sizes in the recipe do not go together.", _VALUE, weight=86),
    sig("config_rejected", ("is larger than", "is greater than", "is smaller than", "is less than"), r"(?P<name>[A-Za-z][\w .\-]{1,60}?) ?[\[(](?P<value>\d{1,12})[\])] is (?P<how>larger|greater|smaller|less) than (?:the )?(?P<other>[a-z][\w.]{0,40}_[\w.]{1,40})(?: ?[\[(](?P<limit>\d{1,12})[\])])?",
        "{name} is {value}: {how} than {other} ({limit}).", "change one of the two in the recipe; the engine's own words say which way", weight=72, stage="arguments"),
    sig("config_rejected", ("are not supported for now", "Unknown quantization method", "is not a valid", "Invalid value", "unknown quantization", "Quantization method specified in the model config"), r"Unknown quantization method: (?P<what>[^\n]{1,80})|Quantization method specified in the model config[^\n]{0,200}|'(?P<value>[^'\n]{1,60})' is not a valid (?P<enum>\w{1,60})|KeyError: 'Unknown (?P<x>[^'\n]{1,60})'",
        "A value in the recipe is not one that the engine knows.", _VALUE, weight=68),
    sig("config_rejected", ("yaml.scanner", "JSONDecodeError", "invalid loads value", "cannot be converted to"), r"yaml\.(?:scanner|parser)\.\w{1,30}|invalid loads value|argument \S{1,60}: Value [^\n]{1,120} cannot be converted to",
        "A structured argument cannot be read.", "check the quotes of that JSON or YAML value in the recipe", weight=70),
    sig("config_rejected", ("Value error, ",), r"Value error, (?P<why>[^\n]{1,240}?)(?: \[type=|$)",
        "The engine refuses a value: {why}.", _VALUE, weight=62, stage="arguments"),
    sig("config_rejected", ("Assertion failed, ",), r"^\s{0,8}Assertion failed, (?P<why>[^\n]{0,200}?)(?: \[type=|$)",
        "The engine refuses a value: {why}.", _VALUE, weight=61, stage="arguments"),
    sig("config_rejected", "chat template", r"(?:The supplied chat template|chat template)[^\n]{0,120}(?:not found|does not exist|is not a)|looks like a file path, but it failed to be opened",
        "The chat template cannot be read.", "check its path and that it is mounted on the head", weight=72),
    sig("model_not_found", "Repo id must be", r"HFValidationError: Repo id must be in the form[^\n]{0,80}?: '(?P<path>[^'\n]{1,200})'",
        "There is no folder {path} in that container: the engine took it for a name on the hub.", _MOUNT, weight=90, stage="arguments"),
    sig("model_not_found", ("Repo id must", "Repository Not Found", "RepositoryNotFoundError", "is not a local folder and is not a valid model identifier", "does not appear to have a file named", "Invalid repository ID or local directory specified", "No model weights found in", "Cannot find any model weights", "Unrecognized model in", "Can't load the configuration of", "no config.json", "Cannot find the config file"),
        r"Repo id must|Repository Not Found|RepositoryNotFoundError|(?P<path>\S{1,200}) is not a local folder and is not a valid model identifier|(?P<path2>\S{1,200}) does not appear to have a file named (?P<file>\S{1,60})|Invalid repository ID or local directory specified: '(?P<path3>[^'\n]{1,200})'|Cannot find any model weights with `?(?P<path4>[^`\n]{1,200})|Unrecognized model in (?P<path5>\S{1,200})\.|Can't load the configuration of '(?P<path6>[^'\n]{1,200})'|Cannot find the config file",
        "The model is not where the recipe says, or its folder is empty there (docker makes an empty folder for a missing mount).", _MOUNT, weight=84, stage="arguments"),
    sig("model_not_found", ("GatedRepoError", "You are trying to access a gated repo", "401 Client Error", "403 Client Error", "Access to model"), r"GatedRepoError|You are trying to access a gated repo|40[13] Client Error[^\n]{0,120}huggingface|Access to model \S{1,120} is restricted",
        "The hub refuses this model without a token that may read it.", "accept the model's terms and give HF_TOKEN, or use a local copy", weight=84),
    sig("hub_offline", ("LocalEntryNotFoundError", "OfflineModeIsEnabled", "outgoing traffic has been disabled", "Cannot reach https://huggingface.co", "We couldn't connect to", "couldn't connect to 'https://huggingface.co'"), r"LocalEntryNotFoundError|OfflineModeIsEnabled|outgoing traffic has been disabled|[Cc]annot reach https?://\S{1,80}: offline mode|[Ww]e couldn't connect to '?https?://huggingface|LocalTokenNotFoundError",
        "The model is not in that node's cache, and the hub may not or cannot be asked.", "copy the model to that node's cache, mount it, or allow the download", weight=88, stage="arguments"),
    sig("hub_offline", ("Max retries exceeded with url", "NameResolutionError", "Temporary failure in name resolution"), r"(?:huggingface\.co|hf\.co|modelscope)[^\n]{0,300}Max retries exceeded|Max retries exceeded with url[^\n]{0,300}(?:huggingface|modelscope)|Failed to resolve 'huggingface\.co'",
        "The hub cannot be reached from that node.", "copy the model to that node, or give it a way out", weight=74),
    sig("damaged_weights", (".safetensors", ".gguf", ".bin"), r"[ '\"(=:](?P<file>/?[\w./\-]{1,120}\.(?:safetensors|gguf|bin))\b[^\n]{0,60}(?:[Cc]orrupt|truncated|deserializing header|incomplete metadata|file not fully covered|unexpected EOF)|(?:[Cc]orrupt\w{0,3}|deserializing header|Unable to load weights from)[^\n]{0,100}?[ '\"(=:](?P<file2>/?[\w./\-]{1,120}\.(?:safetensors|gguf|bin))\b",
        "{file} is cut short or damaged on that node.", "compare its size and `sha256sum` with those on the other nodes, and copy {file} again", weight=94, stage="weights"),
    sig("damaged_weights", ("SafetensorError", "InvalidHeaderDeserialization", "Error while deserializing header", "MetadataIncompleteBuffer", "incomplete metadata", "HeaderTooLarge", "InvalidHeaderLength"), r"Error while deserializing header: ?(?P<why>[\w ,.]{0,80})|SafetensorError[^\n]{0,120}|MetadataIncompleteBuffer|InvalidHeader\w{1,30}|HeaderTooLarge",
        "A file of the weights is cut short or damaged on that node.", "the log does not name it: compare the sizes or hashes of all shards with those on another node (model.safetensors.index.json lists them), and copy the one that differs again", weight=92, stage="weights"),
    sig("damaged_weights", ("PytorchStreamReader failed", "unexpected EOF", "invalid load key", "is not a valid JSON file", "EntryNotFound: model.safetensors"), r"PytorchStreamReader failed[^\n]{0,120}|invalid load key, [^\n]{0,40}|(?:safetensors|checkpoint|\.bin)[^\n]{0,80}unexpected EOF",
        "A file of the weights is cut short or damaged on that node.", "the log does not name it: compare the sizes or hashes of all shards with those on another node (model.safetensors.index.json lists them), and copy the one that differs again", weight=84, stage="weights"),
    sig("damaged_weights", ("No such file or directory", "FileNotFoundError"), r"(?:No such file or directory|FileNotFoundError)[^\n]{0,80}?[ '\"(=:](?P<file>/?[\w./\-]{1,160}\.(?:safetensors|bin|gguf|pt|index\.json))\b",
        "A file of the weights is missing on that node: {file}.", "copy {file} there; model.safetensors.index.json lists all shards", weight=82, stage="weights"),
    sig("damaged_weights", ("No such file or directory", "FileNotFoundError"), r"(?:No such file or directory|FileNotFoundError)[^\n]{0,200}\.(?:safetensors|bin|gguf|pt|index\.json)\b",
        "A file of the weights is missing on that node.", "copy the shards that are missing; the index lists them all", weight=80, stage="weights"),
    sig("checkpoint_mismatch", ("size mismatch", "There is no module or parameter named", "weights were not initialized from checkpoint", "Some weights are not initialized", "Attempted to load weight", "loaded weight", "loaded_weight", "assert param_size", "param_data.shape == loaded_weight.shape", "Missing key", "Unexpected key"),
        r"size mismatch for (?P<name>\S{1,160})|There is no module or parameter named '?(?P<name2>[\w.]{1,160})|weights were not initialized from checkpoint[^\n]{0,200}|Attempted to load weight \([^\n]{0,60}\) into parameter \([^\n]{0,60}\)|assert param_data\.shape == loaded_weight\.shape|(?:Missing|Unexpected) key\(s\) in state_dict",
        "The weights do not fit the model as it is configured.", "compare the checkpoint with the architecture and quantization that the recipe asks for; the index file may be of another model", weight=80, stage="weights"),
    sig("checkpoint_mismatch", "KeyError: ", r"KeyError: '(?P<name>[\w.]{1,160}\.(?:weight|bias|scales?|qweight|qzeros|g_idx|weight_\w{1,30}|input_scale|k_scale|v_scale))'",
        "The checkpoint has {name}, and the model as it is configured has no place for it, or the other way round.", "compare the checkpoint with the architecture and quantization that the recipe asks for, for a draft model too", weight=80, stage="weights"),
    sig("tokenizer_load_error", ("Couldn't instantiate the backend tokenizer", "Can't load tokenizer", "Tokenizer class", "Error parsing line b", "data did not match any variant of untagged enum", "Failed to load the tokenizer", "TokenizerFast", "tiktoken"), r"Couldn't instantiate the backend tokenizer|Can't load tokenizer for '(?P<path>[^'\n]{1,200})'|Tokenizer class (?P<name>\w{1,80}) does not exist|data did not match any variant of untagged enum|Failed to load the tokenizer[^\n]{0,120}|Error parsing line b'[^\n]{0,60}",
        "The tokenizer cannot be loaded.", "check the tokenizer files beside the weights, --tokenizer and --tokenizer-mode, and the image's transformers", weight=85, stage="arguments"),
    sig("model_code_error", ("Model architectures", "with architecture", "are not supported for now", "Cannot find model module", "does not recognize this architecture", "failed to be inspected"), r"Model architectures \[?'?(?P<name>[^\]\n']{1,80})'?\]? (?:are not supported|failed to be inspected)[^\n]{0,120}|[Mm]odel with architecture (?P<name2>\S{1,80}) is not supported|Transformers does not recognize this architecture|Cannot find model module|model of type `(?P<kind>[^`\n]{1,60})` but Transformers does not recognize",
        "This image's engine does not know the model's architecture.", "use an image that supports the model", weight=86, stage="arguments"),
    sig("model_code_error", ("trust_remote_code", "trust-remote-code"), r"(?:requires you to execute|contains custom code which must be executed|Please pass the argument|set the option)[^\n]{0,160}trust[-_]remote[-_]code",
        "The model brings its own code, and that is not allowed.", "give --trust-remote-code if you trust it", weight=84, stage="arguments"),
    sig("python_env_broken", ("No module named", "cannot import name", "partially initialized module", "DistributionNotFound", "PackageNotFoundError", "numpy.dtype size changed", "executable file not found in $PATH"), r"ModuleNotFoundError: No module named '(?P<name>[\w.]{1,80})'|ImportError: cannot import name '(?P<name2>\w{1,80})'|partially initialized module '(?P<name3>[\w.]{1,60})'|PackageNotFoundError[^\n]{0,80}|numpy\.dtype size changed|Error: No module named (?P<name4>\S{1,80})",
        "The image's Python packages do not fit together.", "use the image as built, without packages mounted or installed over it", weight=80),
)  # fmt: skip
