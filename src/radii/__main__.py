from radii.cli import main

main()
