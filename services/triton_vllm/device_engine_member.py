"""The workers of vLLM above rank 0 of a group: takes the server's own arguments, serves nothing.

vLLM's `serve --headless` does this, but that command asks for the installed distribution `vllm`,
which its build for processors does not have.
"""


def main() -> None:
    from vllm.entrypoints.cli.serve import run_headless  # noqa: PLC0415
    from vllm.entrypoints.launchers.cli_args import (  # noqa: PLC0415
        make_arg_parser,
        validate_parsed_serve_args,
    )
    from vllm.entrypoints.serve.utils.api_utils import cli_env_setup  # noqa: PLC0415
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415

    cli_env_setup()
    arguments = make_arg_parser(FlexibleArgumentParser(description=__doc__)).parse_args()
    validate_parsed_serve_args(arguments)
    arguments.api_server_count = 0  # it starts none
    run_headless(arguments)


if __name__ == "__main__":
    main()
