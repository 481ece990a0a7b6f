"""The benchmark `loop`: tasks over real servers, by the gateway and its rivals, judged by the state left behind."""
