"""`python -m specdec_cli.transcript` prints the JSON Schema of a transcript, which ships as schema-1.json."""

import json

from specdec_cli.transcript.schema import json_schema

if __name__ == "__main__":
    print(json.dumps(json_schema(), ensure_ascii=False, indent=2))
