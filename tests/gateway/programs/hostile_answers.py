"""What a hostile server answers, by the name of its tool: text of the wire, some of which no JSON library writes."""

DEEP = "[" * 400 + "1" + "]" * 400
RESULTS: dict[str, str] = {
    "half": '{"content":[{"type":"text","text":"half \\ud800"}]}',
    "half_key": '{"content":[],"structuredContent":{"\\udfff":1}}',
    "deep": '{"content":[],"structuredContent":{"deep":' + DEEP + "}}",
    "nan": '{"content":[],"structuredContent":{"n":NaN,"i":-Infinity}}',
    "meta": '{"content":[],"_meta":"no object"}',
    "meta_list": '{"content":[],"_meta":[1]}',
    "content": '{"content":"no list","isError":"yes"}',
    "empty": "{}",
    "long_number": '{"content":[],"structuredContent":{"n":' + "9" * 4000 + "}}",
    "large_float": '{"content":[],"structuredContent":{"n":1e999}}',
    "null_byte": '{"content":[{"type":"text","text":"a\\u0000b\\u2028c"}]}',
}
ERRORS: dict[str, str] = {
    "half_error": '{"code":1234,"message":"half \\ud800","data":{"\\ud800":"\\ud800"}}',
    "deep_error": '{"code":1234,"message":"deep","data":' + DEEP + "}",
    "nan_error": '{"code":1234,"message":"nan","data":[NaN]}',
}
PROGRESS = '{"method":"notifications/progress","params":{"progressToken":%s,'
SAID: dict[str, str] = {
    "half_log": '{"method":"notifications/message","params":{"level":"error","logger":"\\ud800","data":"\\ud800"}}',
    "deep_log": '{"method":"notifications/message","params":{"level":"error","data":' + DEEP + "}}",
    "nan_log": '{"method":"notifications/message","params":{"level":"error","data":NaN}}',
    "half_progress": PROGRESS + '"progress":1,"message":"\\ud800"}}',
    "nan_progress": PROGRESS + '"progress":NaN,"total":Infinity}}',
}
NAMES = (*RESULTS, *ERRORS, *SAID)
